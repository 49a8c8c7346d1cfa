# Bindings of the kernels in csrc/noise.

GAUSSIAN_MAX_SCALE = <double> VF_GAUSSIAN_MAX_SCALE
GAUSSIAN_REACH = VF_GAUSSIAN_REACH

cdef int _check_noise(int32_t status) except -1:
    """Range and entropy failures are the caller's to see; anything else is a bug."""
    if status == VF_ERR_RANGE:
        raise OverflowError(vf_status_message(status).decode())
    if status == VF_ERR_ENTROPY:
        raise OSError(vf_status_message(status).decode())
    return _check(status)


cdef class Key:
    """A 256-bit key in C memory, zeroed by wipe() and when the object dies.

    Key() asks the operating system; Key(data) copies 32 given bytes, whose
    original stays wherever it was.
    """
    cdef unsigned char bytes[32]
    cdef bint live

    def __cinit__(self, data=None):
        cdef const unsigned char[::1] view
        cdef int i
        self.live = False
        if data is None:
            _check_noise(_api.os_random(32, self.bytes))
        else:
            view = data
            if view.shape[0] != 32:
                raise ValueError(f"key: expected 32 bytes, got {view.shape[0]}")
            for i in range(32):
                self.bytes[i] = view[i]
        self.live = True

    def __reduce__(self):
        raise TypeError("a key cannot be copied or pickled")

    cpdef wipe(self):
        """Zero the key; using it afterwards is an error."""
        cdef volatile unsigned char *p = self.bytes
        cdef int i
        self.live = False
        for i in range(32):
            p[i] = 0

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.wipe()

    def __dealloc__(self):
        self.wipe()


cdef const unsigned char *_key_bytes(Key key) except NULL:
    if not key.live:
        raise RuntimeError("the key has been wiped")
    return key.bytes


def chacha20_fill(Key key, const unsigned char[::1] nonce, uint32_t counter, unsigned char[::1] out, isa=None):
    """RFC 8439 keystream."""
    cdef const vf_api *api = _table(isa)
    cdef const unsigned char *k = _key_bytes(key)
    cdef int32_t status
    if nonce.shape[0] != 12:
        raise RuntimeError("the nonce has the wrong size")
    if out.shape[0] == 0:
        return
    with nogil:
        status = api.chacha20_fill(out.shape[0], k, &nonce[0], counter, &out[0])
    _check_noise(status)


def chacha20_words(Key key, int64_t first, uint64_t[::1] out, isa=None):
    """Element words first .. first + out.size - 1."""
    cdef const vf_api *api = _table(isa)
    cdef const unsigned char *k = _key_bytes(key)
    cdef int32_t status
    if out.shape[0] == 0:
        return
    with nogil:
        status = api.chacha20_words(out.shape[0], first, k, &out[0])
    _check_noise(status)


def rounded_gaussian(Key key, int64_t first, double scale, int64_t[::1] out, isa=None):
    """out[j] = element first + j."""
    cdef const vf_api *api = _table(isa)
    cdef const unsigned char *k = _key_bytes(key)
    cdef int32_t status
    with nogil:
        status = api.rounded_gaussian(out.shape[0], first, scale, k, &out[0])
    _check_noise(status)


def add_rounded_gaussian(Key key, int64_t first, double scale, int64_t[::1] sums, isa=None):
    """sums[j] += element first + j."""
    cdef const vf_api *api = _table(isa)
    cdef const unsigned char *k = _key_bytes(key)
    cdef int32_t status
    with nogil:
        status = api.add_rounded_gaussian(sums.shape[0], first, scale, k, &sums[0])
    _check_noise(status)


def int64_check(int64_t limit, const int64_t[::1] x, isa=None):
    """OverflowError if some abs(x[j]) exceeds limit."""
    cdef const vf_api *api = _table(isa)
    cdef int32_t status
    with nogil:
        status = api.int64_check(x.shape[0], limit, &x[0])
    _check_noise(status)


def symmetric_gaussian(Key key, int64_t row_begin, int64_t row_end, double scale_diagonal, double scale_off,
                       double spacing, matrix, isa=None):
    """Noise for rows of the upper triangle, added and mirrored; spacing is for float64 alone."""
    cdef const vf_api *api = _table(isa)
    cdef const unsigned char *k = _key_bytes(key)
    cdef int64_t[:, :] whole
    cdef double[:, :] real
    cdef int64_t d = matrix.shape[0], stride = matrix.strides[0] // 8 if d > 1 else 1
    cdef int32_t status
    if matrix.dtype == np.int64:
        whole = matrix
        with nogil:
            status = api.symmetric_gaussian_i64(d, row_begin, row_end, scale_diagonal, scale_off, k, stride,
                                                &whole[0, 0])
    else:
        real = matrix
        with nogil:
            status = api.symmetric_gaussian_f64(d, row_begin, row_end, scale_diagonal, scale_off, spacing, k, stride,
                                                &real[0, 0])
    _check_noise(status)


def symmetric_check(int64_t row_begin, int64_t row_end, int64_t limit, double spacing, matrix, isa=None):
    """OverflowError: an entry beyond limit or off the lattice. False: not symmetric."""
    cdef const vf_api *api = _table(isa)
    cdef const int64_t[:, :] whole
    cdef const double[:, :] real
    cdef int64_t d = matrix.shape[0], stride = matrix.strides[0] // 8 if d > 1 else 1
    cdef int32_t status
    if matrix.dtype == np.int64:
        whole = matrix
        with nogil:
            status = api.symmetric_check_i64(d, row_begin, row_end, limit, stride, &whole[0, 0])
    else:
        real = matrix
        with nogil:
            status = api.symmetric_check_f64(d, row_begin, row_end, limit, spacing, stride, &real[0, 0])
    if status == VF_ERR_PARAMETER:
        return False
    _check_noise(status)
    return True


def gaussian_flagged(Key key, int64_t first, int64_t n, double scale, int64_t[::1] indices, isa=None):
    """How many of n elements need the exact path; the first of them into indices."""
    cdef const vf_api *api = _table(isa)
    cdef const unsigned char *k = _key_bytes(key)
    cdef int64_t n_flagged
    cdef int32_t status
    with nogil:
        status = api.gaussian_flagged(n, first, scale, k, indices.shape[0], &indices[0], &n_flagged)
    _check_noise(status)
    return n_flagged


def gaussian_exact(uint64_t u, uint64_t v, Key key, int64_t index, double scale, int32_t limbs=7, isa=None):
    """The draw of an element by the exact path alone, from given head words of its pair."""
    cdef const vf_api *api = _table(isa)
    cdef const unsigned char *k = _key_bytes(key)
    cdef int64_t out
    cdef int32_t status
    with nogil:
        status = api.gaussian_exact(u, v, index, scale, limbs, k, &out)
    _check_noise(status)
    return out
