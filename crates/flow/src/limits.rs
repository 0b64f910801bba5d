//! How the server's seats are divided among priority levels: nominal limits by shares, current limits by demand.

/// The bounds within which one level's limit may move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub nominal: usize,
    /// The nominal limit less what may be lent.
    pub lower: usize,
    /// The nominal limit plus what may be borrowed.
    pub upper: usize,
}

impl Bounds {
    /// The bounds of a level with this part of all shares.
    pub fn of(total: usize, shares: f64, sum_of_shares: f64, lendable: f64, borrowing: Option<f64>) -> Bounds {
        let nominal = (total as f64 * shares / sum_of_shares).ceil();
        let nominal = if nominal.is_finite() { nominal } else { 0.0 };
        let lendable = (nominal * lendable / 100.0).round();
        let borrowing = borrowing.map_or(total as f64, |percent| (nominal * percent / 100.0).round());
        Bounds {
            nominal: nominal as usize,
            lower: (nominal - lendable) as usize,
            upper: (nominal + borrowing) as usize,
        }
    }

    /// A level starts with half of what it may lend already lent.
    pub fn initial(&self) -> usize {
        self.nominal - (self.nominal - self.lower) / 2
    }
}

/// One level's part in the division of seats.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub bounds: Bounds,
    pub exempt: bool,
    /// The most seats asked for at any time of the last period.
    pub high_watermark: usize,
    /// The smoothed demand.
    pub smoothed: f64,
}

/// The current limits of all levels, in the order of the claims, and the fair fraction of their targets.
pub struct Division {
    pub limits: Vec<usize>,
    /// The seats that each level aims at; the lower bound of exempt ones.
    pub targets: Vec<f64>,
    pub fair_fraction: f64,
}

/// Divides the sum of the nominal limits. None if the bounds cannot be met, in which case limits stay as they are.
pub fn divide(claims: &[Claim]) -> Option<Division> {
    let total: usize = claims.iter().map(|claim| claim.bounds.nominal).sum();
    let floors: Vec<usize> = claims.iter().map(Claim::floor).collect();
    let sum = |of: &dyn Fn(usize) -> usize, exempt: bool| -> usize {
        (0..claims.len()).filter(|n| claims[*n].exempt == exempt).map(of).sum()
    };
    let taken_by_exempt = sum(&|n| floors[n], true);
    let remaining = total.saturating_sub(taken_by_exempt);
    let lowest = sum(&|n| claims[n].bounds.lower, false);
    let floor_sum = sum(&|n| floors[n], false);
    let targets: Vec<f64> = (0..claims.len()).map(|n| (floors[n] as f64).max(claims[n].smoothed)).collect();
    let each = |limit: &dyn Fn(usize) -> usize| -> Vec<usize> {
        (0..claims.len()).map(|n| if claims[n].exempt { floors[n] } else { limit(n) }).collect()
    };
    if remaining <= lowest {
        return Some(Division { limits: each(&|n| claims[n].bounds.lower), targets, fair_fraction: 0.0 });
    }
    if remaining <= floor_sum {
        let share = (remaining - lowest) as f64 / (floor_sum - lowest) as f64;
        let limit = |n: usize| {
            let lower = claims[n].bounds.lower;
            lower + ((floors[n] - lower) as f64 * share).round() as usize
        };
        return Some(Division { limits: each(&limit), targets, fair_fraction: 0.0 });
    }
    let limited: Vec<usize> = (0..claims.len()).filter(|n| !claims[*n].exempt).collect();
    let items: Vec<Item> = limited
        .iter()
        .map(|n| Item { target: targets[*n], lower: floors[*n] as f64, upper: claims[*n].bounds.upper as f64 })
        .collect();
    let (allocated, fair_fraction) = allocate(total as f64, &items)?;
    let mut limits = floors;
    for (n, seats) in limited.into_iter().zip(allocated) {
        limits[n] = seats.round() as usize;
    }
    Some(Division { limits, targets, fair_fraction })
}

impl Claim {
    /// The least a level gets: what it needed at most in the last period, within its bounds.
    fn floor(&self) -> usize {
        let needed = if self.exempt { self.high_watermark } else { self.high_watermark.min(self.bounds.nominal) };
        needed.max(self.bounds.lower)
    }
}

/// One part of an allocation problem: `lower <= target`, `lower <= upper`.
#[derive(Clone, Copy, Debug)]
struct Item {
    target: f64,
    lower: f64,
    upper: f64,
}

/// Targets below this are raised to it, so that nothing is divided by zero.
const TARGET_MIN: f64 = 0.001;
const EPSILON: f64 = 1e-7;

/// Finds the fraction at which every item gets that part of its target, kept within its bounds, and all of them together
/// get `sum`.
fn allocate(sum: f64, items: &[Item]) -> Option<(Vec<f64>, f64)> {
    let items: Vec<Item> = items.iter().map(|item| Item { target: item.target.max(TARGET_MIN), ..*item }).collect();
    let (lowest, highest) = items.iter().fold((0.0, 0.0), |(low, high), item| (low + item.lower, high + item.upper));
    let is_valid = items.iter().all(|item| item.lower <= item.target && item.lower <= item.upper);
    if !is_valid || lowest - sum > EPSILON || sum - highest > EPSILON {
        return None;
    }
    let fraction = fair_fraction(sum, lowest, &items)?;
    let seats = items.iter().map(|item| (fraction * item.target).min(item.upper).max(item.lower)).collect();
    Some((seats, fraction))
}

/// The total grows with the fraction, by the targets of the items that are between their bounds. Walks through the
/// fractions at which an item reaches a bound until the total reaches `sum`.
fn fair_fraction(sum: f64, lowest: f64, items: &[Item]) -> Option<f64> {
    let mut turns: Vec<(f64, f64)> = Vec::with_capacity(items.len() * 2);
    for item in items {
        turns.push((item.lower / item.target, item.target));
        turns.push((item.upper / item.target, -item.target));
    }
    turns.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut total, mut slope) = (lowest, 0.0);
    let mut fraction = turns.first()?.0;
    for (bound, change) in turns {
        let grown = total + (bound - fraction) * slope;
        if grown >= sum && slope > 0.0 {
            return Some(fraction + (sum - total) / slope);
        }
        (total, fraction) = (grown, bound);
        slope += change;
    }
    Some(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(nominal: usize, lower: usize, upper: usize, high_watermark: usize, smoothed: f64) -> Claim {
        Claim { bounds: Bounds { nominal, lower, upper }, exempt: false, high_watermark, smoothed }
    }

    #[test]
    fn bounds_come_from_shares_and_percentages() {
        assert_eq!(Bounds::of(600, 30.0, 245.0, 0.0, Some(50.0)), Bounds { nominal: 74, lower: 74, upper: 111 });
        assert_eq!(Bounds::of(600, 20.0, 245.0, 50.0, None), Bounds { nominal: 49, lower: 24, upper: 649 });
        assert_eq!(Bounds::of(600, 0.0, 0.0, 0.0, None), Bounds { nominal: 0, lower: 0, upper: 600 });
        assert_eq!(Bounds { nominal: 49, lower: 24, upper: 649 }.initial(), 37);
    }

    #[test]
    fn idle_levels_share_by_their_lower_bounds() {
        let division = divide(&[claim(100, 50, 200, 0, 0.0), claim(100, 100, 200, 0, 0.0)]).unwrap();
        assert_eq!(division.limits.iter().sum::<usize>(), 200);
        assert!(division.limits[0] >= 50 && division.limits[1] >= 100);
    }

    #[test]
    fn a_busy_level_borrows_from_an_idle_one() {
        let division = divide(&[claim(100, 20, 200, 180, 180.0), claim(100, 20, 200, 0, 0.0)]).unwrap();
        assert_eq!(division.limits, [180, 20]);
    }

    #[test]
    fn exempt_levels_take_what_they_need() {
        let exempt = Claim { exempt: true, ..claim(10, 10, 10, 150, 150.0) };
        let division = divide(&[exempt, claim(100, 60, 100, 100, 100.0), claim(90, 90, 90, 0, 0.0)]).unwrap();
        assert_eq!(division.limits, [150, 60, 90]);
    }

    #[test]
    fn allocations_fill_the_sum_within_bounds() {
        let item = |target, lower, upper| Item { target, lower, upper };
        let problems: [(f64, Vec<Item>); 4] = [
            (10.0, vec![item(5.0, 0.0, 10.0), item(5.0, 0.0, 10.0)]),
            (10.0, vec![item(9.0, 9.0, 9.0), item(100.0, 0.0, 50.0), item(0.0, 0.0, 5.0)]),
            (20.0, vec![item(5.0, 0.0, 6.0), item(1.0, 0.0, 100.0)]),
            (4.0, vec![item(3.0, 1.0, 3.0), item(3.0, 3.0, 3.0)]),
        ];
        for (sum, items) in problems {
            let (seats, fraction) = allocate(sum, &items).unwrap();
            assert!((seats.iter().sum::<f64>() - sum).abs() < 1e-6, "{seats:?} {fraction}");
            for (seat, item) in seats.iter().zip(&items) {
                assert!(*seat >= item.lower && *seat <= item.upper, "{seats:?} {items:?}");
            }
        }
        assert!(allocate(1.0, &[item(3.0, 2.0, 3.0)]).is_none());
        assert!(allocate(9.0, &[item(3.0, 2.0, 3.0)]).is_none());
    }
}
