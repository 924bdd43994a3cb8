import { instant } from '../core/clock.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { EntityStatus } from '../sinks/ledger-reader.ts';
import { accessSink, openSink, storedStatus } from '../sinks/registry.ts';
import type { ResetCounts, ResetScope } from '../sinks/repair.ts';
import type { OpenHow } from '../sinks/sink-access.ts';

/** A connector, or one entity of it with its tables, whose progress is discarded. */
interface ResetTarget {
  readonly connector: ConnectorSettings;
  readonly scope: Pick<ResetScope, 'entity' | 'tables'>;
}

/** What a reset would discard; empty where nothing is stored. */
export async function wouldReset({ connector, scope }: ResetTarget): Promise<readonly EntityStatus[]> {
  const stored = await storedStatus(connector);
  const names = new Set(scope.tables.map(({ entity }) => entity));
  return (stored?.entities ?? []).filter(({ entity }) => scope.entity === null || names.has(entity));
}

/** Null where there is no sink. Throws as `reset` of the sink. */
export async function resetConnector(
  { connector, scope }: ResetTarget,
  withData: boolean,
  how: Pick<OpenHow, 'clock' | 'signal'>,
): Promise<ResetCounts | null> {
  if (!(await accessSink(connector.sink).isThere())) return null;
  await using sink = await openSink(connector.sink, how);
  return await sink.repair.reset(connector.name, { ...scope, withData, now: instant(how.clock.now()) });
}
