//! resource.k8s.io/v1beta1: what a request asks for stands in the request itself, and what there is to say about a device in
//! a part of it called `basic`.

use object::Value;
use registry::Convert;

/// What v1 has in `exactly`.
const EXACTLY: [&str; 8] = [
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
];
const STORED: &str = "resource.k8s.io/v1";
const SERVED: &str = "resource.k8s.io/v1beta1";

/// Claims, or templates of them: `spec` leads to the spec of the claim.
pub struct Claims {
    pub spec: &'static [&'static str],
}

impl Convert for Claims {
    fn to_storage(&self, mut object: Value) -> Result<Value, String> {
        object.set(&["apiVersion"], STORED);
        self.for_each_request(&mut object, |request| {
            let mut exactly = Value::Null;
            for field in EXACTLY {
                if let Some(value) = request.remove(&[field]).filter(|value| !value.is_null()) {
                    exactly.set(&[field], value);
                }
            }
            if !exactly.is_null() {
                request.set(&["exactly"], exactly);
            }
        });
        Ok(object)
    }

    fn from_storage(&self, mut object: Value) -> Result<Value, String> {
        object.set(&["apiVersion"], SERVED);
        self.for_each_request(&mut object, |request| {
            let exactly = request.remove(&["exactly"]).unwrap_or_default();
            for field in EXACTLY {
                if !exactly.field(field).is_null() {
                    request.set(&[field], exactly.field(field).clone());
                }
            }
        });
        Ok(object)
    }
}

impl Claims {
    fn for_each_request(&self, object: &mut Value, change: impl FnMut(&mut Value)) {
        let spec = object.at_mut(self.spec);
        let requests = spec.and_then(|spec| spec.at_mut(&["devices", "requests"])).and_then(Value::as_list_mut);
        requests.into_iter().flatten().for_each(change);
    }
}

/// Slices of devices.
pub struct Slices;

impl Convert for Slices {
    fn to_storage(&self, mut object: Value) -> Result<Value, String> {
        object.set(&["apiVersion"], STORED);
        for device in devices(&mut object) {
            let basic = device.remove(&["basic"]).unwrap_or_default();
            for (field, value) in basic.as_map().into_iter().flat_map(|map| map.iter()) {
                device.set(&[field], value.clone());
            }
        }
        Ok(object)
    }

    fn from_storage(&self, mut object: Value) -> Result<Value, String> {
        object.set(&["apiVersion"], SERVED);
        for device in devices(&mut object) {
            let name = device.remove(&["name"]).unwrap_or_default();
            let basic = std::mem::replace(device, Value::map());
            device.set(&["name"], name);
            device.set(&["basic"], basic);
        }
        Ok(object)
    }
}

fn devices(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    object.at_mut(&["spec", "devices"]).and_then(Value::as_list_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::yaml;

    #[test]
    fn both_forms_say_the_same() {
        let claims: &dyn Convert = &Claims { spec: &["spec"] };
        let cases = [
            (
                claims,
                "{devices: {requests: [{name: r, deviceClassName: c, count: 2}, {name: s, firstAvailable: [{name: t}]}]}}",
                "{devices: {requests: [{name: r, exactly: {deviceClassName: c, count: 2}}, {name: s, firstAvailable: [{name: t}]}]}}",
            ),
            (
                &Slices,
                "{devices: [{name: d, basic: {attributes: {a: {int: 1}}}}]}",
                "{devices: [{name: d, attributes: {a: {int: 1}}}]}",
            ),
        ];
        for (conversion, served, stored) in cases {
            let object = |version: &str, spec: &str| yaml(&format!("{{apiVersion: {version}, spec: {spec}}}"));
            let (served, stored) = (object(SERVED, served), object(STORED, stored));
            assert_eq!(conversion.to_storage(served.clone()).as_ref(), Ok(&stored));
            assert_eq!(conversion.from_storage(stored), Ok(served));
        }
    }
}
