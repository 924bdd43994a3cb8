import * as z from 'zod';
import { strictObject } from '../../definitions/schema-problems.ts';
import { healthOf, type Trouble } from '../../app/connector-health.ts';
import { freshnessOf, overviewOf, readOverviewsOfReadable } from '../../app/connector-states.ts';
import type { ConnectorOverview } from '../../sinks/ledger-reader.ts';
import { formatDuration } from '../../settings/parse-unit.ts';
import { counted } from '../../telemetry/format.ts';
import { answer, fitting, jsonOf } from '../answer.ts';
import type { ShownConnector, ShownEntity } from '../shown-entities.ts';
import { tool } from '../tool.ts';
import { mostConnectors } from './list-entities.ts';

export const freshness = tool({
  name: 'freshness',
  title: 'How old the data is',
  description:
    'How old what is stored is, whether the last sync went well, and what is wrong; of one connector also entity by entity. To answer "is this up to date?".',
  input: strictObject({
    connector: z.string().max(200).optional().describe('such as "newsletter"; left out: all'),
    after: z.string().max(200).optional().describe('to go on: from "next" of the answer before'),
  }),
  run: async ({ shown, clock }, { connector: name, after = '' }) => {
    const all = name === undefined ? shown.connectors : [shown.connectorNamed(name)];
    const left = all
      .filter((one) => one.name > after)
      .toSorted((one, other) => (one.name < other.name ? -1 : 1));
    const page = left.slice(0, mostConnectors);
    const nowMs = clock.now();
    const { overviews, unreadable } = await readOverviewsOfReadable(page);
    const isReadable = (connector: ShownConnector): boolean =>
      !unreadable.some(({ connectors }) => connectors.includes(connector));
    const rows = page.map((connector) => {
      if (!isReadable(connector)) return { connector: connector.name, state: 'cannot be read' };
      const entities = name === undefined ? null : shown.of(connector);
      return rowOf(connector, overviewOf(overviews, connector), nowMs, entities);
    });
    const fit = fitting(rows, jsonOf);
    return answer({
      now: new Date(nowMs).toISOString(),
      note: 'as_of: what changed in the service before is stored. state: failed, late, incomplete, paused, running, new or ok, the worst that is true.',
      connectors: fit,
      ...(fit.length < left.length ? { next: { after: fit.at(-1)?.connector } } : {}),
    });
  },
});

function rowOf(
  connector: ShownConnector,
  overview: ConnectorOverview | null,
  nowMs: number,
  entities: readonly ShownEntity[] | null,
) {
  const { word, words, stalest, troubles } = healthOf(connector, overview, nowMs);
  const last = overview?.lastRun ?? null;
  return {
    connector: connector.name,
    state: word,
    as_of: stalest?.asOf ?? null,
    ...(words.has('late') ? { too_old: true } : {}),
    last_sync: last === null ? null : { state: last.state, began: last.startedAt, ended: last.finishedAt },
    ...(troubles.length === 0 ? {} : { wrong: troubles.map(troubleText) }),
    ...(entities === null
      ? {}
      : {
          entities: freshnessOf(connector, overview?.freshness)
            .filter((one) => entities.some(({ target }) => target.table.entity === one.entity))
            .map(entityText),
        }),
  };
}

function entityText({ entity, asOf, freshWithinMs }: ReturnType<typeof freshnessOf>[number]): string {
  const wanted = freshWithinMs === null ? '' : `, wanted within ${formatDuration(freshWithinMs)}`;
  return `${entity}: ${asOf === null ? 'never read completely' : `as of ${asOf}`}${wanted}`;
}

function troubleText(trouble: Trouble): string {
  switch (trouble.kind) {
    case 'withheld':
      return `${counted(trouble.rows, 'row')} look deleted in the service; the delete is withheld`;
    case 'pending':
      return `${counted(trouble.rows, 'row')} may be deleted in the service`;
    case 'quarantine':
      return `${counted(trouble.records, 'record')} could not be stored`;
    case 'fields':
      return `${counted(trouble.fields.length, 'field')} new, or unlike what was declared`;
    case 'purge':
      return 'a purge is not finished: what was purged may still be stored or published';
    case 'withheld-by-age':
      return `${counted(trouble.items, 'old row or file', 'old rows and files')} kept by a guard`;
    case 'throttled':
      return `the service asked for a pause until ${trouble.until}`;
    case 'interrupted':
      return 'the last sync was interrupted';
    case 'limited':
      return 'the last sync ended at a limit';
    case 'left-out':
      return 'the last sync left something out';
    case 'part-missing':
      return `${counted(trouble.listings, 'listing')} may have records that did not come`;
    case 'late':
      return entityText(trouble);
    case 'paused':
      return `paused since ${trouble.since}`;
    case 'sign-in':
      return 'a person has to sign in';
    case 'credentials':
    case 'schema':
    case 'error':
    case 'retried':
      return `the last sync had an error (${trouble.code})`;
  }
}
