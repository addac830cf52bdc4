"""One module per paper and one for the peers: they import the packages, never copy them."""
