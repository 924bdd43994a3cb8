import * as z from 'zod';
import { usage } from '../../core/usage-error.ts';
import { strictObject } from '../../definitions/schema-problems.ts';
import { aboutRecords, answer, fitting, jsonOf } from '../answer.ts';
import { oldestOf, stateFacts } from '../entity-states.ts';
import { mostOfCell } from '../sql/query-limits.ts';
import { tool } from '../tool.ts';

export const sql = tool({
  name: 'sql',
  title: 'Query by SQL',
  isSlow: true,
  description:
    'One query (SELECT, WITH or VALUES; SQLite or PostgreSQL) over views of the stored records, without deleted ones. To count, add up, group and join. Name the columns that you need instead of *: the fewer are read, the faster it is. Without "sql": the views and their columns; ask for these first.',
  input: strictObject({
    sql: z
      .string()
      .max(20_000)
      .optional()
      .describe('such as "SELECT status, count(*) FROM newsletter__campaigns_current GROUP BY status"'),
    connector: z
      .string()
      .max(200)
      .optional()
      .describe('a connector whose database is queried; only needed where there are several databases'),
    limit: z.int().min(1).max(200).optional().describe('how many rows; 50 if left out'),
    offset: z.int().min(0).max(10_000_000).optional().describe('to go on: from "next" of the answer before'),
  }),
  run: async ({ sql: queries }, { sql: text, connector, limit = 50, offset = 0 }, signal) => {
    if (queries === null) throw usage('sql is not allowed: a person allows it with --allow-sql.');
    const sink = queries.sinkOf(connector);
    if (text === undefined || text.trim() === '') {
      const views = (await queries.views(sink)).map((view) => ({
        view: view.name,
        of: view.label,
        columns: view.columns,
      }));
      const left = views.slice(offset);
      const fit = fitting(left, jsonOf);
      return answer({
        database: sink.type,
        views: fit,
        ...(fit.length < left.length ? { next: { offset: offset + fit.length } } : {}),
      });
    }
    const { columns, rows, hasMore, read } = await queries.query(sink, { sql: text, limit, offset }, signal);
    return answer(
      {
        database: sink.type,
        as_of: oldestOf(read.map(({ state }) => state)),
        complete: read.every(({ state }) => state.doubts.length === 0),
        read: read.map(({ view, entity, state }) => ({ view, entity, ...stateFacts(state) })),
        more: hasMore,
        ...(hasMore ? { next: { offset: offset + rows.length } } : {}),
        note: `${aboutRecords} Values are cut after ${mostOfCell} characters: substr() gives other parts.${hasMore ? ' There are more rows: the same query with "offset" continues; ORDER BY keeps the order the same.' : ''}`,
        columns,
        rows,
      },
      rows.length,
    );
  },
});
