#include <array>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cblas.h>

using Vector = std::array<double, 3>;

PYBIND11_MODULE(_dot, module)
{
    module.def(
        "dot",
        [](const Vector &x, const Vector &y) {
            return cblas_ddot(3, x.data(), 1, y.data(), 1);
        },
        "Return the dot product of two vectors of three numbers.");
}
