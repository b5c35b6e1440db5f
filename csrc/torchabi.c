#define _GNU_SOURCE
#include "torchabi.h"

#include <dlfcn.h>

TorchABI torch_abi;

static const char *const libraries[] = {"libtorch_cpu.so", "libtorch_python.so"};

void *
torch_abi_symbol(const char *name)
{
    void *symbol = NULL;
    for (size_t i = 0; symbol == NULL && i < sizeof libraries / sizeof libraries[0]; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL) {
            symbol = dlsym(library, name);
            dlclose(library); /* torch itself keeps it */
        }
    }
    return symbol;
}

/* Whether the only word of an at::Tensor is where `tensor_handle` says: torch makes a handle of a
   tensor, which tells what the word is. False also if torch does not make one. */
static bool
is_tensor_inline(PyObject *torch)
{
    PyObject *tensor = PyObject_CallMethod(torch, "empty", "(i)", 1);
    PyObject *c = PyObject_GetAttrString(torch, "_C");
    PyObject *aoti = c == NULL ? NULL : PyObject_GetAttrString(c, "_aoti");
    PyObject *capsules = tensor == NULL || aoti == NULL
                             ? NULL
                             : PyObject_CallMethod(aoti, "unsafe_alloc_void_ptrs_from_tensors",
                                                   "([O])", tensor);
    PyObject *capsule = capsules == NULL ? NULL : PySequence_GetItem(capsules, 0);
    TensorHandle handle = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, NULL);
    bool is_inline = false;
    if (handle != NULL) {
        is_inline = Py_TYPE(tensor)->tp_basicsize > (Py_ssize_t)sizeof(PyObject) &&
                    *(void **)handle == *(void **)tensor_handle(tensor);
        torch_abi.delete_tensor(handle);
    }
    PyErr_Clear();
    Py_XDECREF(capsule);
    Py_XDECREF(capsules);
    Py_XDECREF(aoti);
    Py_XDECREF(c);
    Py_XDECREF(tensor);
    return is_inline;
}

int
torch_abi_setup(PyObject *torch)
{
    const struct {
        void **place;
        const char *name;
    } symbols[] = {
        {(void **)&torch_abi.parallel_for, "torch_parallel_for"},
        {(void **)&torch_abi.empty_strided, "aoti_torch_empty_strided"},
        {(void **)&torch_abi.delete_tensor, "aoti_torch_delete_tensor_object"},
        {(void **)&torch_abi.data_ptr, "aoti_torch_get_data_ptr"},
        {(void **)&torch_abi.device_type, "aoti_torch_get_device_type"},
        {(void **)&torch_abi.wrap, "_Z16THPVariable_WrapON2at10TensorBaseE"},
        {(void **)&torch_abi.is_conj, "_ZN2at6native7is_conjERKNS_6TensorE"},
        {(void **)&torch_abi.is_neg, "_ZN2at6native6is_negERKNS_6TensorE"},
    };
    torch_abi.is_complete = true;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        *symbols[i].place = torch_abi_symbol(symbols[i].name);
        torch_abi.is_complete = torch_abi.is_complete && *symbols[i].place != NULL;
    }
    torch_abi.is_inline = torch_abi.is_complete && is_tensor_inline(torch);
    return 0;
}
