//! Amounts in resource lists.

use object::Value;
use object::quantity::Quantity;

use crate::common::checks::quantity;

/// Upstream keeps no more than thousandths of anything in a resource list.
pub fn round_up_to_milli(list: Option<&mut Value>) {
    let Some(list) = list.and_then(Value::as_map_mut) else { return };
    for (_, amount) in list.iter_mut() {
        let exact = quantity(amount);
        let rounded = Quantity::from_milli(exact.milli_value(), exact.format());
        // What has no number of thousandths that fits comes out smaller, and stays as it is.
        if rounded > exact {
            *amount = Value::from(rounded.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn nothing_is_finer_than_a_thousandth() {
        let mut list = value!({"a": "1500u", "b": "1m", "c": "2Gi", "d": "100n"});
        round_up_to_milli(Some(&mut list));
        assert_eq!(list, value!({"a": "2m", "b": "1m", "c": "2Gi", "d": "1m"}));
    }
}
