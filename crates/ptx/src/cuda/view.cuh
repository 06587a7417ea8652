namespace coalescope {

// A multi-dimensional array whose rows are Pitch bytes apart. Extents are those
// of all axes but the outermost: v[y][x] for one, v[z][y][x] for two.
template <class T, size_t Pitch, size_t... Extents> struct View;

template <class T, size_t Pitch, size_t Columns> struct View<T, Pitch, Columns> {
    static constexpr size_t pitch = Pitch;
    static constexpr size_t step = Pitch;
    char *data;

    template <class Index> __host__ __device__ T *operator[](Index row) const
    {
        return reinterpret_cast<T *>(data + row * Pitch);
    }
    __host__ __device__ operator T *() const { return reinterpret_cast<T *>(data); }
    template <class U> __host__ __device__ explicit operator U *() const
    {
        return reinterpret_cast<U *>(data);
    }
};

template <class T, size_t Pitch, size_t Rows, size_t... Inner>
struct View<T, Pitch, Rows, Inner...> {
    using Plane = View<T, Pitch, Inner...>;
    static constexpr size_t pitch = Pitch;
    static constexpr size_t step = Rows * Plane::step;
    char *data;

    template <class Index> __host__ __device__ Plane operator[](Index plane) const
    {
        return Plane{data + plane * step};
    }
    __host__ __device__ operator T *() const { return reinterpret_cast<T *>(data); }
    template <class U> __host__ __device__ explicit operator U *() const
    {
        return reinterpret_cast<U *>(data);
    }
};

} // namespace coalescope
