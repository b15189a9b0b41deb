"""neardup inside other libraries; one module a library, which imports it. Nothing imports these."""
