"""The public names: light to import, documented, and none of them a module's."""

from __future__ import annotations

import subprocess
import sys


def test_import_is_light_and_no_module_has_a_public_name():
    code = (
        "import sys, neardup; assert not {'numba', 'pyarrow', 'numpy'} & set(sys.modules); "
        "assert set(neardup.__all__) <= set(dir(neardup)); "
        "import pkgutil; modules = {m.name for m in pkgutil.iter_modules(neardup.__path__)}; "
        "assert not modules & set(neardup.__all__), modules & set(neardup.__all__); "
        "assert neardup.dedup(['a']).kept == [0]; assert neardup.similarity('a', 'a') == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
