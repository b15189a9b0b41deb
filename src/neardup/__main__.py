"""python -m neardup is the same as neardup."""

from neardup.cli import main

if __name__ == "__main__":
    main()
