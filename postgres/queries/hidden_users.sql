-- Whether any user is deleted and not removed yet.
SELECT EXISTS (SELECT FROM :"schema".users u WHERE u.deleted_at IS NOT NULL)
