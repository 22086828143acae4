-- As whom one asks, and whether it is a superuser.
SELECT r.rolname::text, r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
