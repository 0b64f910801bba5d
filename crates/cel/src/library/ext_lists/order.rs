//! The order in which Go's `sort.Slice` leaves a list, which is neither stable nor defined where keys have no order: what
//! cel-go sorts comes out in it, equal keys and NaN included.
//!
//! It is Go's variant of the pattern-defeating quicksort: which items are compared and swapped, and when, is part of the result.

/// Shorter parts are sorted by insertion.
const INSERTION_MAX: usize = 12;
/// From this length on a pivot is the median of three medians, and parts that are nearly sorted are finished by insertion.
const LONG: usize = 50;
/// How many pairs in the wrong order are mended before a part no longer counts as nearly sorted.
const MENDED_MAX: usize = 5;

/// The numbers from 0 to `length` in the order of the keys that they stand for.
pub fn sorted(length: usize, is_less: &dyn Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut sorter = Sorter { order: (0..length).collect(), is_less };
    sorter.sort(0, length, bits(length));
    sorter.order
}

fn bits(n: usize) -> u32 {
    usize::BITS - n.leading_zeros()
}

struct Sorter<'l> {
    order: Vec<usize>,
    is_less: &'l dyn Fn(usize, usize) -> bool,
}

/// What the choice of a pivot tells about a part.
#[derive(Clone, Copy, PartialEq)]
enum Hint {
    Increasing,
    Decreasing,
    Unknown,
}

impl Sorter<'_> {
    fn less(&self, i: usize, j: usize) -> bool {
        (self.is_less)(self.order[i], self.order[j])
    }

    fn swap(&mut self, i: usize, j: usize) {
        self.order.swap(i, j);
    }

    /// Sorts from `a` up to `b`. After `limit` unbalanced partitions a heap takes over.
    fn sort(&mut self, mut a: usize, mut b: usize, mut limit: u32) {
        let (mut balanced, mut was_partitioned) = (true, true);
        while b - a > INSERTION_MAX {
            let length = b - a;
            if limit == 0 {
                return self.heap(a, b);
            }
            if !balanced {
                self.scatter(a, b);
                limit -= 1;
            }
            let (mut pivot, mut hint) = self.pivot(a, b);
            if hint == Hint::Decreasing {
                self.order[a..b].reverse();
                (pivot, hint) = (b - 1 - (pivot - a), Hint::Increasing);
            }
            if balanced && was_partitioned && hint == Hint::Increasing && self.finish(a, b) {
                return;
            }
            if a > 0 && !self.less(a - 1, pivot) {
                a = self.skip_equal(a, b, pivot);
                continue;
            }
            let (middle, untouched) = self.partition(a, b, pivot);
            was_partitioned = untouched;
            let (left, right) = (middle - a, b - middle);
            balanced = left.min(right) >= length / 8;
            if left < right {
                self.sort(a, middle, limit);
                a = middle + 1;
            } else {
                self.sort(middle + 1, b, limit);
                b = middle;
            }
        }
        for i in a + 1..b {
            self.sink(i, a);
        }
    }

    /// Moves an item down while it is less than the one below it, but not below `end`.
    fn sink(&mut self, from: usize, end: usize) {
        let mut i = from;
        while i > end && self.less(i, i - 1) {
            self.swap(i, i - 1);
            i -= 1;
        }
    }

    fn heap(&mut self, first: usize, b: usize) {
        let length = b - first;
        for root in (0..=(length - 1) / 2).rev() {
            self.sift(root, length, first);
        }
        for last in (0..length).rev() {
            self.swap(first, first + last);
            self.sift(0, last, first);
        }
    }

    fn sift(&mut self, mut root: usize, end: usize, first: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && self.less(first + child, first + child + 1) {
                child += 1;
            }
            if !self.less(first + root, first + child) {
                return;
            }
            self.swap(first + root, first + child);
            root = child;
        }
    }

    /// Splits into what is less than the pivot and what is not. Where the pivot ended, and whether nothing had to move.
    fn partition(&mut self, a: usize, b: usize, pivot: usize) -> (usize, bool) {
        self.swap(a, pivot);
        let (mut i, mut j) = (a + 1, b - 1);
        let mut untouched = true;
        loop {
            while i <= j && self.less(i, a) {
                i += 1;
            }
            while i <= j && !self.less(j, a) {
                j -= 1;
            }
            if i > j {
                self.swap(j, a);
                return (j, untouched);
            }
            untouched = false;
            self.swap(i, j);
            i += 1;
            j -= 1;
        }
    }

    /// Moves what equals the pivot to the front, where nothing is less than it. Where the rest begins.
    fn skip_equal(&mut self, a: usize, b: usize, pivot: usize) -> usize {
        self.swap(a, pivot);
        let (mut i, mut j) = (a + 1, b - 1);
        loop {
            while i <= j && !self.less(a, i) {
                i += 1;
            }
            while i <= j && self.less(a, j) {
                j -= 1;
            }
            if i > j {
                return i;
            }
            self.swap(i, j);
            i += 1;
            j -= 1;
        }
    }

    /// Sorts a part that is nearly sorted; false if it is not.
    fn finish(&mut self, a: usize, b: usize) -> bool {
        let mut i = a + 1;
        for _ in 0..MENDED_MAX {
            while i < b && !self.less(i, i - 1) {
                i += 1;
            }
            if i == b {
                return true;
            }
            if b - a < LONG {
                return false;
            }
            self.swap(i, i - 1);
            if i - a >= 2 {
                self.sink(i - 1, 0);
            }
            if b - i >= 2 {
                let mut j = i + 1;
                while j < b && self.less(j, j - 1) {
                    self.swap(j, j - 1);
                    j += 1;
                }
            }
        }
        false
    }

    /// Swaps three items in the middle with others, to break a pattern that makes bad pivots.
    fn scatter(&mut self, a: usize, b: usize) {
        let length = b - a;
        let mut random = length as u64;
        let mask = (1_u64 << bits(length)) - 1;
        let middle = a + length / 4 * 2;
        for i in middle - 1..=middle + 1 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = (random & mask) as usize;
            self.swap(i, a + if other >= length { other - length } else { other });
        }
    }

    fn pivot(&self, a: usize, b: usize) -> (usize, Hint) {
        let quarter = (b - a) / 4;
        let mut swaps = 0;
        let mut places = [a + quarter, a + quarter * 2, a + quarter * 3];
        if b - a >= LONG {
            places = places.map(|at| self.median([at - 1, at, at + 1], &mut swaps));
        }
        let median = self.median(places, &mut swaps);
        let hint = match swaps {
            0 => Hint::Increasing,
            12 => Hint::Decreasing,
            _ => Hint::Unknown,
        };
        (median, hint)
    }

    fn median(&self, [mut a, mut b, mut c]: [usize; 3], swaps: &mut usize) -> usize {
        let mut in_order = |x: &mut usize, y: &mut usize| {
            if self.less(*y, *x) {
                *swaps += 1;
                std::mem::swap(x, y);
            }
        };
        in_order(&mut a, &mut b);
        in_order(&mut b, &mut c);
        in_order(&mut a, &mut b);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::sorted;

    /// A line for each list: its length, how many different keys it has, how many of a hundred have no order, and a hash of the
    /// order in which Go leaves it.
    const FACTS: &str = include_str!("../../../testdata/go-sort.txt");

    #[test]
    fn lists_come_out_as_go_leaves_them() {
        for line in FACTS.lines().filter(|line| !line.starts_with('#')) {
            let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            let [length, kinds, unordered, want] = numbers[..] else { panic!("{line}") };
            let mut random = length * 31 + kinds;
            let mut next = || {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                random >> 33
            };
            let keys: Vec<f64> = (0..length)
                .map(|at| match (next() % 100 < unordered, kinds) {
                    (true, _) => f64::NAN,
                    (false, 0) => at as f64,
                    (false, 1) => -(at as f64),
                    (false, kinds) => (next() % kinds) as f64,
                })
                .collect();
            let order = sorted(keys.len(), &|i, j| keys[i] < keys[j]);
            let hash = order
                .iter()
                .fold(14695981039346656037, |hash: u64, at| (hash ^ *at as u64).wrapping_mul(1099511628211));
            assert_eq!(hash, want, "{line}");
        }
    }
}
