import type { App } from './app.ts';
import { compareAside } from './audit-entity.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { EntityName } from '../core/names.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { RunReport } from '../sinks/run-report.ts';

/** Calls for records: enough for some pages of most entities. */
const sampleCalls = 60;
/** Of what was compared. The same account has most rows as they are stored; another one shares hardly a key. */
const leastEqualShare = 0.5;
/** An entity of so many compared rows without an equal one is another one, however well others fit. */
const tellingRows = 20;

export interface Sample {
  /** Of the reading; it is in no sink's history. */
  readonly report: RunReport;
  readonly entities: readonly SampledEntity[];
  /** True where what the address serves is what is stored, as far as the sample goes. */
  readonly agrees: boolean;
}

export interface SampledEntity {
  readonly entity: EntityName;
  /** Records that the address served. */
  readonly read: number;
  /** Of them: stored with the same content, volatile fields aside. */
  readonly equal: number;
  /** Of them: stored with other content. */
  readonly changed: number;
  /** Of them: not stored. */
  readonly added: number;
  /** Stored, and not served. Null where the sample ended before the account did. */
  readonly missing: number | null;
}

/** Reads a part of a connector and compares it with what the connector's sink holds. Throws what `compareAside` throws. */
export async function sampleConnector(
  app: App,
  connector: ConnectorSettings,
  { onEvent, signal }: { readonly onEvent: OnRunEvent; readonly signal: AbortSignal },
): Promise<Sample> {
  const run = { isFull: true, maxCalls: sampleCalls };
  const asked = { globs: { select: [], exclude: [] }, run, onEvent, signal };
  return await compareAside(app, connector, asked, async (report, compare) => {
    const entities: SampledEntity[] = [];
    for (const name of connector.entities.keys()) {
      const table = connector.definition.entities.get(name)?.table;
      if (table === undefined) continue;
      const found = await compare(table, 0);
      const [equal, changed, added] = [found.same, found.changed.count, found.missing.count];
      const missing = report.outcome === 'ok' ? found.extra.count : null;
      entities.push({ entity: name, read: equal + changed + added, equal, changed, added, missing });
    }
    const compared = entities.filter(({ read, missing }) => read + (missing ?? 0) > 0);
    return { report, entities: compared, agrees: isSame(compared) };
  });
}

function isSame(entities: readonly SampledEntity[]): boolean {
  const all = entities.reduce((sum, { read, missing }) => sum + read + (missing ?? 0), 0);
  const equal = entities.reduce((sum, one) => sum + one.equal, 0);
  const isOther = entities.some((one) => one.equal === 0 && one.read + (one.missing ?? 0) >= tellingRows);
  return equal > 0 && equal >= all * leastEqualShare && !isOther;
}
