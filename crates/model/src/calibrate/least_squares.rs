//! Linear least squares of a few unknowns.

use ndarray::{Array1, Array2};

/// The `x` that minimises |`a` x − `b`|, by Householder reflections.
///
/// `None` where `a` has fewer rows than columns, or columns that depend on each
/// other: the measurements do not tell the unknowns apart.
///
/// Method: G. H. Golub, C. F. Van Loan, *Matrix Computations*, 4th ed., §5.2–5.3.
pub fn least_squares(mut a: Array2<f64>, mut b: Array1<f64>) -> Option<Array1<f64>> {
    /// A column that is left with less than this of its length depends on those
    /// before it.
    const DEPENDENT: f64 = 1e-12;
    let (rows, columns) = a.dim();
    if rows < columns || b.len() != rows {
        return None;
    }
    let lengths: Vec<f64> = a.columns().into_iter().map(|column| norm(column.iter())).collect();
    for k in 0..columns {
        let length = norm(a.column(k).iter().skip(k));
        if length.is_nan() || length <= DEPENDENT * lengths[k] {
            return None;
        }
        // The reflection that maps the rest of the column to its first place.
        let alpha = if a[[k, k]] > 0.0 { -length } else { length };
        let mut v: Vec<f64> = a.column(k).iter().skip(k).copied().collect();
        v[0] -= alpha;
        let square: f64 = v.iter().map(|x| x * x).sum();
        for column in k..columns {
            let dot: f64 = v.iter().zip(a.column(column).iter().skip(k)).map(|(v, x)| v * x).sum();
            for (i, v) in v.iter().enumerate() {
                a[[k + i, column]] -= 2.0 * v * dot / square;
            }
        }
        let dot: f64 = v.iter().zip(b.iter().skip(k)).map(|(v, x)| v * x).sum();
        for (i, v) in v.iter().enumerate() {
            b[k + i] -= 2.0 * v * dot / square;
        }
    }
    let mut x = Array1::zeros(columns);
    for k in (0..columns).rev() {
        let known: f64 = (k + 1..columns).map(|j| a[[k, j]] * x[j]).sum();
        x[k] = (b[k] - known) / a[[k, k]];
    }
    Some(x)
}

/// Intercept and slope of the line through points (x, y), by least squares of
/// the relative deviations: a point that is ten times as high may be off by ten
/// times as much.
pub fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    if points.iter().any(|&(_, y)| y.is_nan() || y <= 0.0) {
        return None;
    }
    let a = Array2::from_shape_fn((points.len(), 2), |(row, column)| {
        let (x, y) = points[row];
        [1.0, x][column] / y
    });
    let x = least_squares(a, Array1::ones(points.len()))?;
    Some((x[0], x[1]))
}

fn norm<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn an_exact_system_is_solved() {
        let a = array![[2.0, 1.0], [1.0, 3.0], [4.0, -1.0]];
        let x = array![1.5, -2.0];
        let solved = least_squares(a.clone(), a.dot(&x)).expect("independent columns");
        assert!((&solved - &x).iter().all(|error| error.abs() < 1e-12), "{solved}");
    }

    #[test]
    fn the_residual_is_orthogonal_to_the_columns() {
        let a = array![[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 5.0]];
        let b = array![0.1, 1.3, 1.7, 5.4];
        let x = least_squares(a.clone(), b.clone()).expect("independent columns");
        let residual = &b - &a.dot(&x);
        assert!(a.t().dot(&residual).iter().all(|dot| dot.abs() < 1e-12));
    }

    #[test]
    fn what_cannot_be_told_apart_is_refused() {
        assert_eq!(least_squares(array![[1.0, 2.0], [2.0, 4.0]], array![1.0, 2.0]), None);
        assert_eq!(least_squares(array![[1.0, 2.0]], array![1.0]), None);
        assert_eq!(line(&[(3.0, 1.0), (3.0, 1.0)]), None);
    }

    #[test]
    fn a_line_is_found() {
        let (a, b) = line(&[(8.0, 9.0), (16.0, 17.0), (32.0, 33.0)]).expect("three points");
        assert!((a - 1.0).abs() < 1e-9 && (b - 1.0).abs() < 1e-9, "{a} {b}");
    }
}
