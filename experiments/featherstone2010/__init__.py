"""[OSI] reproduced: R. Featherstone, sparsity in operational-space dynamics, 2010."""
