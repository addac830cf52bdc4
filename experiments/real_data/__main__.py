"""``python -m experiments.real_data --data FOLDER``: see :mod:`experiments.real_data.parts`."""

from experiments.real_data.parts import main

if __name__ == "__main__":
    main()
