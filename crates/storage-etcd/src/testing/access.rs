//! etcd's access control, of which the server itself needs nothing: its user is the one in its certificate.

use crate::EtcdOptions;
use crate::client::Client;

/// Makes a user who may read and write a prefix and nothing else, and switches access control on.
pub async fn restrict(options: &EtcdOptions, user: &str, prefix: &str) {
    let client = Client::new(options).unwrap();
    for name in ["root", user] {
        let options = Some(AddUserOptions { no_password: true });
        ask(&client, "/etcdserverpb.Auth/UserAdd", AddUser { name: name.into(), options }).await;
        ask(&client, "/etcdserverpb.Auth/RoleAdd", AddRole { name: name.into() }).await;
        ask(&client, "/etcdserverpb.Auth/UserGrantRole", GrantRole { user: name.into(), role: name.into() }).await;
    }
    let mut range_end = prefix.as_bytes().to_vec();
    *range_end.last_mut().unwrap() += 1;
    let permission = Some(Permission { kind: READ_WRITE, key: prefix.into(), range_end });
    ask(&client, "/etcdserverpb.Auth/RoleGrantPermission", GrantPermission { name: user.into(), permission }).await;
    ask(&client, "/etcdserverpb.Auth/AuthEnable", Empty {}).await;
}

async fn ask<Q: prost::Message + Clone + 'static>(client: &Client, path: &'static str, message: Q) {
    client.once::<Q, Empty>(path, message).await.unwrap();
}

const READ_WRITE: i32 = 2;

#[derive(Clone, PartialEq, prost::Message)]
struct Empty {}

#[derive(Clone, PartialEq, prost::Message)]
struct AddUser {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "3")]
    options: Option<AddUserOptions>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AddUserOptions {
    #[prost(bool, tag = "1")]
    no_password: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AddRole {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct GrantRole {
    #[prost(string, tag = "1")]
    user: String,
    #[prost(string, tag = "2")]
    role: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct GrantPermission {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    permission: Option<Permission>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Permission {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    range_end: Vec<u8>,
}
