import { recordsRead, rowsWritten } from '../../app/run-totals.ts';
import type { RunReport } from '../../sinks/run-report.ts';
import { count, counted, duration } from '../../telemetry/format.ts';

/** What the demo's runs took and wrote, beside what reading everything for the first time took. */
export function totalsText(
  reports: readonly RunReport[],
  first: readonly RunReport[],
  ms: number,
): readonly string[] {
  const written = sumOf(reports, rowsWritten);
  const deleted = sumOf(
    reports.flatMap(({ entities }) => entities),
    (entity) => entity.deleted,
  );
  const verdict =
    written + deleted === 0
      ? 'Nothing has changed: 0 rows written'
      : `${counted(written, 'row')} written${deleted === 0 ? '' : `, ${count(deleted)} marked as deleted`}`;
  return [
    `${costsText(reports, ' read')} over HTTP,`,
    `${verdict} (${duration(ms)}).`,
    'Pages overlap on purpose, so that no record slips between two of them: a record',
    'that came twice counts as duplicate. _extra keeps values that have no column.',
    'A listing is one list that the API was asked for, such as the members of one',
    'mailing list; complete: yes means that each one asked for was read to its end.',
    ...(first.length === 0
      ? []
      : [
          `The first run read ${costsText(first)}. Where the API can tell`,
          'what has changed, this run asked for changes only (so says the column complete);',
          'deletes there show at the next complete read. Blocks and comments of unchanged',
          'pages were skipped; the rest was read and compared. Records that seem deleted',
          'are checked one by one where the API allows it.',
        ]),
  ];
}

function costsText(reports: readonly RunReport[], read = ''): string {
  const calls = sumOf(reports, (report) => report.calls);
  return `${counted(sumOf(reports, recordsRead), 'record')}${read} in ${counted(calls, 'call')}`;
}

function sumOf<One>(all: readonly One[], of: (one: One) => number): number {
  return all.reduce((sum, one) => sum + of(one), 0);
}

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
