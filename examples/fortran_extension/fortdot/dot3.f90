function dot3(x, y) result(value) bind(c)
  use iso_c_binding, only: c_double
  implicit none
  real(c_double), intent(in) :: x(3), y(3)
  real(c_double) :: value
  double precision, external :: ddot
  value = ddot(3, x, 1, y, 1)
end function dot3
