export interface DemoQuery {
  readonly question: string;
  readonly sql: string;
}

/** What a person might ask of the copy; run as they are printed. Lines and answers fit 80 columns. */
export const demoQueries: readonly DemoQuery[] = [
  {
    question: 'How many people can each list reach?',
    sql: `SELECT lists.name AS list,
       sum(members.status = 'subscribed') AS subscribed,
       sum(members.status = 'unsubscribed') AS unsubscribed
  FROM newsletter__list_members AS members
  JOIN newsletter__lists AS lists ON lists.id = members.list_id
 WHERE members._deleted_at IS NULL AND lists._deleted_at IS NULL
 GROUP BY lists.id ORDER BY subscribed DESC, lists.id`,
  },
  {
    question: 'Which campaigns were opened and clicked most?',
    sql: `SELECT json_extract(campaigns.settings, '$.subject_line') AS subject,
       sum(events.action = 'open') AS opens,
       sum(events.action = 'click') AS clicks
  FROM newsletter__email_activity_events AS events
  JOIN newsletter__campaigns AS campaigns ON campaigns.id = events.campaign_id
 WHERE campaigns._deleted_at IS NULL AND events._deleted_at IS NULL
 GROUP BY campaigns.id ORDER BY opens DESC, campaigns.id LIMIT 3`,
  },
  {
    question: 'Which wiki pages are longest, and how deep do they nest?',
    sql: `SELECT coalesce(json_extract(pages.properties, '$.title.title[0].plain_text'),
                json_extract(pages.properties, '$.Name.title[0].plain_text'),
                'Untitled') AS page,
       count(*) AS blocks, max(blocks.depth) AS depth
  FROM wiki__blocks AS blocks
  JOIN wiki__pages AS pages ON pages.id = blocks.page_id
 WHERE pages._deleted_at IS NULL AND blocks._deleted_at IS NULL
 GROUP BY pages.id ORDER BY blocks DESC, pages.id LIMIT 3`,
  },
];
