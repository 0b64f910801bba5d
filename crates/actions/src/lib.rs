//! What a POST does where it does not store: bindings, evictions, tokens and reviews.

mod evict;
mod pods;
mod reviews;
mod token;
mod webhook_token;

use std::sync::Arc;

use authn::Authenticator;
use authz::Authorizer;
use hashbrown::HashMap;
use registry::Action;

pub use token::TokenSettings;

/// Group, resource and subresource to what a POST does there.
pub type Actions = HashMap<(&'static str, &'static str, &'static str), Arc<dyn Action>>;

/// All actions. Reviews ask the same authorizer and authenticator that requests go through.
pub fn all(authorizer: Arc<dyn Authorizer>, authenticator: Arc<Authenticator>, tokens: TokenSettings) -> Actions {
    const AUTHORIZATION: &str = "authorization.k8s.io";
    const AUTHENTICATION: &str = "authentication.k8s.io";
    let access = |who| -> Arc<dyn Action> { Arc::new(reviews::AccessReview { authorizer: authorizer.clone(), who }) };
    let mut actions: Actions = HashMap::new();
    actions.insert((AUTHORIZATION, "subjectaccessreviews", ""), access(reviews::Who::Named));
    actions.insert((AUTHORIZATION, "localsubjectaccessreviews", ""), access(reviews::Who::NamedHere));
    actions.insert((AUTHORIZATION, "selfsubjectaccessreviews", ""), access(reviews::Who::Asker));
    actions.insert(
        (AUTHORIZATION, "selfsubjectrulesreviews", ""),
        Arc::new(reviews::Rules { authorizer: authorizer.clone() }),
    );
    actions.insert((AUTHENTICATION, "selfsubjectreviews", ""), Arc::new(reviews::Myself));
    actions.insert((AUTHENTICATION, "tokenreviews", ""), Arc::new(reviews::Token { authenticator }));
    actions.insert(("", "bindings", ""), Arc::new(pods::Bind));
    actions.insert(("", "pods", "binding"), Arc::new(pods::Bind));
    actions.insert(("", "pods", "eviction"), Arc::new(evict::Evict));
    actions.insert(("", "serviceaccounts", "token"), Arc::new(token::Issue { tokens, authorizer }));
    actions
}
