import type { ConnectorName } from '../../src/core/names.ts';
import type { EntityTable } from '../../src/core/records.ts';
import type { MissingRow } from '../../src/sinks/readings.ts';
import type { Sink } from '../../src/sinks/sink-access.ts';

/** Those of these records that seem deleted upstream and are not tombstoned. */
export async function missingRows(
  history: Pick<Sink['history'], 'explain'>,
  connector: ConnectorName,
  table: EntityTable,
  keyTexts: readonly string[],
): Promise<readonly MissingRow[]> {
  const found: MissingRow[] = [];
  for (const keyText of keyTexts) {
    const missing = (await history.explain(connector, table, keyText))?.missing ?? null;
    if (missing !== null) found.push(missing);
  }
  return found;
}
