import * as z from 'zod';
import { textUpTo } from '../routes/given-text.ts';

/** More than any record has fields; without it a body full of what is no path is told of each, one by one, before it is refused. */
const fieldPaths = z.array(z.string()).max(100_000).nullish();

/** The body of an execute call. What `params` may hold is the definition's business: see `checkParams`. */
export const executeBody = z.object({
  entity: z.string(),
  action: z
    .string()
    .describe('list, get, context_store_search (or search), download: as the entity offers them.'),
  params: z
    .record(z.string(), z.unknown())
    .nullish()
    .describe("The action's parameters; null or absent where there are none."),
  select_fields: fieldPaths.describe('Dot paths of what is kept of a record; wins over exclude_fields.'),
  exclude_fields: fieldPaths.describe('Dot paths of what is left out of a record.'),
  skip_truncation: z
    .boolean()
    .nullish()
    .describe('false: texts of a list or a search that are longer than 200 characters are cut.'),
  intent: textUpTo(512).nullish().describe('Accepted and not used.'),
});

export type ExecuteBody = z.output<typeof executeBody>;
