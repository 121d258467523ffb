#include <vector>
#include "shape.h"

namespace geo::flat {

/// A point in the plane.
template <typename T>
struct Point {
    T x{}, y{};
    Point operator+(const Point& other) const { return {x + other.x, y + other.y}; }
};

using Points = std::vector<Point<int>>;

class Shape : public Base<int>, private detail::Counted {
public:
    /// Makes a shape.
    explicit Shape(int id) : id_(id), points_() {}
    virtual ~Shape() = default;
    virtual double area() const = 0;
    static Shape* make(const std::string& kind);
    template <class Visitor> void visit(Visitor&& visitor) { visitor(*this); }
    enum class Kind { Circle, Square };
    int count = 0;

protected:
    Points points_;

private:
    int id_;
    friend class Factory;
};

Shape* Shape::make(const std::string& kind) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto* shape = new Circle(1);
    shape->count = detail::next(kind);
    for (const auto& point : shape->points_) {
        log(point.x);
    }
    auto twice = [&](int n) { return n * 2; };
    return twice(2) > 3 ? shape : nullptr;
}

template <typename T>
T largest(std::initializer_list<T> values) {
    return std::max<T>(values);
}

static constexpr double PI = 3.14;
int Shape::total = 0;

}  // namespace geo::flat

extern "C" int shape_count(void);
