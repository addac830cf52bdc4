"""The command ``dynsys``, one module per subcommand."""
