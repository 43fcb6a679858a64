! Calls BLAS and LAPACK by their Fortran names and checks the results.
! INTEGER_BITS is the width of the integers passed; with NAMES_64 the symbols end in _64_.
#ifdef NAMES_64
#define ddot ddot_64
#define zdotc zdotc_64
#define dgemm dgemm_64
#define dgesv dgesv_64
#endif
program calls
  implicit none
  integer, parameter :: ik = INTEGER_BITS / 8, dp = kind(1d0)
  integer(ik), parameter :: one = 1, two = 2, three = 3, canary = 90
  real(dp), external :: ddot
  complex(dp), external :: zdotc
  real(dp) :: x(3) = [1, 2, 3], y(3) = [4, 5, 6], p(2, 3), q(3, 2), r(2, 2), a(3, 3), b(3)
  complex(dp) :: u(2) = [(1, 2), (3, -1)], v(2) = [(2, -1), (1, 1)]
  integer(ik) :: ipiv(5), info

  if (ddot(three, x, one, y, one) /= 32) call wrong('ddot')
  if (ddot(three, x, -one, y, one) /= 28) call wrong('ddot backwards')
  if (zdotc(two, u, one, v, one) /= dot_product(u, v)) call wrong('zdotc')

  p = reshape([1, 2, 3, 4, 5, 6], [2, 3])
  q = reshape([6, 5, 4, 3, 2, 1], [3, 2])
  r = 1
  call dgemm('N', 'N', two, two, three, 2d0, p, two, q, three, 3d0, r, two)
  if (any(r /= 2 * matmul(p, q) + 3)) call wrong('dgemm')

  a = transpose(reshape([0, 2, 1, 1, 1, 3, 4, 1, 1], [3, 3]))
  b = [7, 12, 9]
  ipiv = canary
  info = -1
  call dgesv(three, one, a, three, ipiv(2), b, three, info)
  if (info /= 0) call wrong('dgesv')
  if (any(abs(b - [1, 2, 3]) > 1d-13)) call wrong('the solution of dgesv')
  if (any(ipiv /= [canary, three, three, three, canary])) call wrong('ipiv of dgesv')
  print '(a)', 'right'

contains

  subroutine wrong(what)
    character(*), intent(in) :: what
    print '(2a)', 'wrong: ', what
    stop 1
  end subroutine
end program
