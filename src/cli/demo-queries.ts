export interface DemoQuery {
  readonly question: string;
  readonly sql: string;
}

/** What a person might ask of the copy; run as they are printed. Lines and answers fit 80 columns. */
export const demoQueries: readonly DemoQuery[] = [
  {
    question: 'How many members are there, by status?',
    sql: `SELECT status, count(*) AS members FROM newsletter__list_members
 WHERE _deleted_at IS NULL GROUP BY status ORDER BY members DESC`,
  },
  {
    question: 'Which campaigns were opened and clicked most?',
    sql: `SELECT json_extract(campaigns.settings, '$.subject_line') AS subject,
       sum(events.action = 'open') AS opens,
       sum(events.action = 'click') AS clicks
  FROM newsletter__email_activity_events AS events
  JOIN newsletter__campaigns AS campaigns ON campaigns.id = events.campaign_id
 WHERE campaigns._deleted_at IS NULL
 GROUP BY campaigns.id ORDER BY opens DESC, campaigns.id LIMIT 3`,
  },
  {
    question: 'Which wiki pages hold most, and how deep do they go?',
    sql: `SELECT pages.id AS page, count(*) AS blocks, max(blocks.depth) AS depth
  FROM wiki__blocks AS blocks
  JOIN wiki__pages AS pages ON pages.id = blocks.page_id
 WHERE pages._deleted_at IS NULL AND blocks._deleted_at IS NULL
 GROUP BY pages.id ORDER BY blocks DESC, pages.id LIMIT 3`,
  },
];
