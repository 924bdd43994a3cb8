import { readCopies } from '../../../app/copy-connector.ts';
import type { LocalSettings } from '../../../settings/settings.ts';
import { copiedAwayError, unfinishedCopyError } from '../../../sinks/acquire-errors.ts';
import { exitCodes } from '../../output/exit-codes.ts';
import { failed, type CheckResult } from './check-result.ts';

/**
 * Copies that were not completed, into every sink of the config: a sink may be there for a copy alone. And connectors of the config that have left the sink
 * that it names for them. Both fail the next sync where the connector is to be synced into that sink.
 */
export async function checkCopies({ sinks, connectors }: LocalSettings): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  for (const sink of sinks.values()) {
    const { unfinished, away } = await readCopies(sink);
    for (const copy of unfinished.values()) {
      const connector = connectors.get(copy.connector);
      const what = `copy of ${copy.connector}`;
      const problem = failed(what, unfinishedCopyError(copy));
      const isUsed = connector?.sink.name === sink.name;
      results.push(isUsed ? problem : { ...problem, state: 'warning', exitCode: exitCodes.ok });
    }
    for (const copy of away.values()) {
      const isUsed = connectors.get(copy.connector)?.sink.name === sink.name;
      if (isUsed) results.push(failed(`copy of ${copy.connector}`, copiedAwayError(copy)));
    }
  }
  return results;
}
