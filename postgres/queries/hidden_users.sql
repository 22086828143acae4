-- Whether there are deleted users who are not removed yet.
SELECT EXISTS (SELECT FROM :"schema".users u WHERE u.deleted_at IS NOT NULL)
