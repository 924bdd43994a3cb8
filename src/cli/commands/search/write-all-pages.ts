import { SyncError } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json.ts';
import { counted } from '../../../telemetry/progress-text.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { jsonText } from '../../output/json-text.ts';
import type { Searcher } from './searcher.ts';

/**
 * Every record of a search on standard output, a line of JSON each, one page at a time. Ends quietly when the reader of the
 * pipe is gone. Throws PAGING_BROKEN where a cursor comes again, and after ten pages in a row that have no record.
 */
export async function writeAllPages(
  { terminal, signal }: CommandContext,
  searcher: Searcher,
  params: JsonObject,
): Promise<ExitCode> {
  let written = 0;
  let next = params;
  let emptyPages = 0;
  const seen = new Set<string>();
  for (;;) {
    const { records, hasMore, cursor } = await searcher.search(next);
    const isTaken = await terminal.printRecords(records.map((record) => `${jsonText(record)}\n`).join(''));
    if (!isTaken) return exitCodes.ok;
    signal.throwIfAborted();
    written += records.length;
    if (!hasMore || cursor === null) break;
    if (seen.has(cursor)) throw broken(written, 'the same cursor again, expected a new one');
    emptyPages = records.length === 0 ? emptyPages + 1 : 0;
    if (emptyPages >= mostEmptyPages) {
      throw broken(written, `${emptyPages} pages without a record, each with a further cursor`);
    }
    seen.add(cursor);
    next = { ...params, cursor };
  }
  terminal.note(counted(written, 'record'));
  return exitCodes.ok;
}

const mostEmptyPages = 10;

function broken(written: number, what: string): SyncError {
  return new SyncError(
    `After ${counted(written, 'record')} the API returned ${what}: there may be more records, which cannot be reached.`,
    { code: 'PAGING_BROKEN', recovery: 'stop' },
  );
}
