import type { EntityName } from '../core/names.ts';
import { usage } from '../core/usage-error.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { newsName, type FieldNews } from '../sinks/drift.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import { accessSink, openSink } from '../sinks/registry.ts';
import type { OpenHow } from '../sinks/sink-access.ts';
import { newFieldsOf } from './connector-health.ts';

/** What there is to acknowledge of a connector. Throws USAGE where nothing is new. */
export function fieldsToAcknowledge(
  { name }: Pick<ConnectorSettings, 'name'>,
  overview: ConnectorOverview | null,
  nowMs: number,
): readonly FieldNews[] {
  const fields = newFieldsOf(overview, nowMs);
  if (fields.length === 0) throw usage(`${name} has no new fields to acknowledge.`);
  return fields;
}

/** Notes that a person knows of these fields: they no longer need one. Others that come later do. */
export async function acknowledgeFields(
  { name, sink: place }: Pick<ConnectorSettings, 'name' | 'sink'>,
  fields: readonly FieldNews[],
  how: Pick<OpenHow, 'clock' | 'signal' | 'who'>,
): Promise<void> {
  await using sink = await openSink(place, how);
  const detail = { fields: fields.map(newsName) };
  await sink.noteAction({ action: 'acknowledge-fields', connector: name, detail });
}

/** Lets an added column become one of texts. Throws as `widen` of the sink, and USAGE where nothing is stored. */
export async function widenColumn(
  { name: connector, sink: place }: Pick<ConnectorSettings, 'name' | 'sink'>,
  entity: EntityName,
  field: string,
  how: Pick<OpenHow, 'clock' | 'signal'>,
): Promise<void> {
  if (!(await accessSink(place).isThere())) throw usage(`Sink ${place.name} has no data of ${connector}.`);
  await using sink = await openSink(place, how);
  await sink.drift.widen({ connector, entity }, field);
}
