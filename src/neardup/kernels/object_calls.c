/* How Python calls the kernels of a shared object. See decision 040.
 *
 * It is compiled once and linked into each object, with Numba's own file for objects, which it
 * includes. Its type `Kernel` checks arguments and calls the function that Numba has compiled for
 * their types. Three of Numba's functions are replaced by cheaper ones, as every call pays for them.
 */

#define numba_unpickle numba_unpickle_each_time
#define NRT_adapt_ndarray_from_python numba_array_from_python
#define NRT_adapt_ndarray_to_python_acqref numba_array_to_python
#include "modulemixin.c"
#undef numba_unpickle
#undef NRT_adapt_ndarray_from_python
#undef NRT_adapt_ndarray_to_python_acqref

#define HASH_BYTES 20 /* of the hash that Numba gives with pickled data */

/* Wrappers ask for the class of each array that they return: it is remembered, exceptions are not. */
VISIBILITY_HIDDEN PyObject *
numba_unpickle(const char *data, int size, const char *hash)
{
    static char remembered_hash[HASH_BYTES];
    static PyObject *remembered = NULL;

    if (remembered == NULL || memcmp(hash, remembered_hash, HASH_BYTES) != 0) {
        PyObject *found = numba_unpickle_each_time(data, size, hash);
        if (found == NULL || !PyType_Check(found))
            return found;
        Py_XSETREF(remembered, found);
        memcpy(remembered_hash, hash, HASH_BYTES);
    }
    return Py_NewRef(remembered);
}

/* An array that is an argument is borrowed: its caller holds it, and no memory is allocated. */
VISIBILITY_HIDDEN int
NRT_adapt_ndarray_from_python(PyObject *object, arystruct_t *to)
{
    PyArrayObject *array = (PyArrayObject *)object;
    int dimensions;

    if (!PyArray_Check(object))
        return -1;
    dimensions = PyArray_NDIM(array);
    to->meminfo = NULL;
    to->parent = object;
    to->nitems = PyArray_SIZE(array);
    to->itemsize = PyArray_ITEMSIZE(array);
    to->data = PyArray_DATA(array);
    for (int i = 0; i < dimensions; i++) {
        to->shape_and_strides[i] = PyArray_DIM(array, i);
        to->shape_and_strides[dimensions + i] = PyArray_STRIDE(array, i);
    }
    return 0;
}

/* A returned array has its own memory, or is an argument as it was given. */
VISIBILITY_HIDDEN PyObject *
NRT_adapt_ndarray_to_python_acqref(arystruct_t *from, PyTypeObject *type, int dimensions,
                                   int writeable, PyArray_Descr *dtype)
{
    PyObject *array;
    MemInfoObject *owner;

    if (from->parent != NULL
        && (array = try_to_return_parent(from, dimensions, dtype)) != NULL)
        return array;
    if (from->meminfo == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a kernel must not return a part of an argument");
        return NULL;
    }
    owner = PyObject_New(MemInfoObject, &MemInfoType);
    if (owner == NULL)
        return NULL;
    NRT_MemInfo_acquire(from->meminfo);
    owner->meminfo = from->meminfo;
    Py_INCREF(dtype);
    array = PyArray_NewFromDescr(type, dtype, dimensions, from->shape_and_strides,
                                 from->shape_and_strides + dimensions, from->data,
                                 writeable ? NPY_ARRAY_WRITEABLE : 0, NULL);
    if (array == NULL) {
        Py_DECREF(owner);
        return NULL;
    }
    if (PyArray_SetBaseObject((PyArrayObject *)array, (PyObject *)owner) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    return array;
}

/* The type of an argument, as `shared_objects.encode_type` writes it. */
typedef struct {
    char kind; /* NumPy's letter for numbers: b, f, i, u; or ( for a tuple */
    unsigned char size; /* bytes of a number; the number of parts of a tuple */
    unsigned char dimensions; /* of an array; 0 for a number or a tuple */
    unsigned char written; /* whether the kernel writes to the array */
} argument_type;

typedef struct {
    PyObject *types; /* bytes that are argument types */
    PyObject *closure; /* what the function wants as its first argument */
    PyCFunctionWithKeywords function;
} overload;

typedef struct {
    PyObject_VAR_HEAD
    vectorcallfunc call;
    PyObject *refuse; /* is called with arguments that fit no overload; raises */
    overload overloads[];
} kernel;

static int
fits_number(PyObject *value, char kind)
{
    if (kind == 'b')
        return PyBool_Check(value) || PyArray_IsScalar(value, Bool);
    if (kind == 'f' && (PyFloat_Check(value) || PyArray_IsScalar(value, Floating)))
        return 1;
    return PyLong_Check(value) || PyArray_IsScalar(value, Integer);
}

static int
fits_array(PyObject *value, const argument_type *type)
{
    PyArrayObject *array = (PyArrayObject *)value;
    int flags = NPY_ARRAY_CARRAY_RO | (type->written ? NPY_ARRAY_WRITEABLE : 0);

    return PyArray_Check(value) && PyArray_NDIM(array) == type->dimensions
           && PyArray_DESCR(array)->kind == type->kind && PyArray_ITEMSIZE(array) == type->size
           && PyArray_CHKFLAGS(array, flags) && PyArray_ISNOTSWAPPED(array);
}

/* Whether values are of these types; a tuple is followed by the types of its parts. */
static int
fit(PyObject *const *values, Py_ssize_t count, const argument_type *type, const argument_type *end)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (type == end)
            return 0;
        if (type->kind == '(') {
            const argument_type *parts = type + 1;
            type = parts + type->size;
            if (!PyTuple_Check(values[i])
                || !fit(&PyTuple_GET_ITEM(values[i], 0), PyTuple_GET_SIZE(values[i]), parts, type))
                return 0;
        } else {
            if (type->dimensions ? !fits_array(values[i], type)
                                 : !fits_number(values[i], type->kind))
                return 0;
            type++;
        }
    }
    return type == end;
}

static PyObject *
kernel_call(PyObject *self, PyObject *const *values, size_t flags, PyObject *names)
{
    kernel *called = (kernel *)self;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    PyObject *arguments, *answer = NULL;
    const overload *found = NULL;

    if (names != NULL && PyTuple_GET_SIZE(names) > 0) {
        PyErr_SetString(PyExc_TypeError, "kernels take no keyword arguments");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < Py_SIZE(called) && found == NULL; i++) {
        PyObject *types = called->overloads[i].types;
        const char *start = PyBytes_AS_STRING(types), *end = start + PyBytes_GET_SIZE(types);
        if (fit(values, count, (const argument_type *)start, (const argument_type *)end))
            found = &called->overloads[i];
    }
    arguments = PyTuple_New(count);
    if (arguments == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++)
        PyTuple_SET_ITEM(arguments, i, Py_NewRef(values[i]));
    if (found != NULL)
        answer = found->function(found->closure, arguments, NULL);
    else
        answer = PyObject_Call(called->refuse, arguments, NULL);
    Py_DECREF(arguments);
    return answer;
}

static void
kernel_dealloc(PyObject *self)
{
    kernel *gone = (kernel *)self;

    for (Py_ssize_t i = 0; i < Py_SIZE(gone); i++) {
        Py_XDECREF(gone->overloads[i].types);
        Py_XDECREF(gone->overloads[i].closure);
    }
    Py_XDECREF(gone->refuse);
    Py_TYPE(self)->tp_free(self);
}

/* Whether bytes are argument types, of which each tuple has all of its parts. */
static int
are_types(PyObject *types)
{
    Py_ssize_t count = PyBytes_GET_SIZE(types) / sizeof(argument_type);
    const argument_type *type = (const argument_type *)PyBytes_AS_STRING(types);

    if (PyBytes_GET_SIZE(types) % sizeof(argument_type) != 0)
        return 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (type[i].kind == '(' && type[i].size > count - i - 1)
            return 0;
    return 1;
}

/* Kernel(refuse, types, function, types, function, ...) */
static PyObject *
kernel_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    Py_ssize_t count = (PyTuple_GET_SIZE(given) - 1) / 2;
    kernel *made;

    if (count < 1 || PyTuple_GET_SIZE(given) != 2 * count + 1 || names != NULL) {
        PyErr_SetString(PyExc_TypeError, "a kernel has argument types and a function for each");
        return NULL;
    }
    made = (kernel *)type->tp_alloc(type, count);
    if (made == NULL)
        return NULL;
    made->call = kernel_call;
    made->refuse = Py_NewRef(PyTuple_GET_ITEM(given, 0));
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *types = PyTuple_GET_ITEM(given, 2 * i + 1);
        PyObject *function = PyTuple_GET_ITEM(given, 2 * i + 2);
        if (!PyBytes_Check(types) || !are_types(types) || !PyCFunction_Check(function)
            || PyCFunction_GET_SELF(function) == NULL
            || !PyObject_TypeCheck(PyCFunction_GET_SELF(function), &ClosureType)) {
            PyErr_SetString(PyExc_TypeError, "not the argument types or the function of a kernel");
            Py_DECREF(made);
            return NULL;
        }
        made->overloads[i].types = Py_NewRef(types);
        made->overloads[i].closure = Py_NewRef(PyCFunction_GET_SELF(function));
        made->overloads[i].function
            = (PyCFunctionWithKeywords)(void (*)(void))PyCFunction_GET_FUNCTION(function);
    }
    return (PyObject *)made;
}

static PyTypeObject KernelType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "neardup.kernels.Kernel",
    .tp_basicsize = sizeof(kernel),
    .tp_itemsize = sizeof(overload),
    .tp_dealloc = kernel_dealloc,
    .tp_vectorcall_offset = offsetof(kernel, call),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = kernel_new,
};

/* Is called by the object when it is loaded. */
int
neardup_init_object(PyObject *module, PyMethodDef *methods, env_def_t *constants, env_gv_t *places)
{
    if (PYCC(pycc_init_)(module, methods, constants, places) != 0)
        return -1;
    return PyModule_AddType(module, &KernelType);
}
