import * as z from 'zod';
import { healthOf, type Trouble } from '../../app/connector-health.ts';
import { freshnessOf, overviewOf, readOverviewsOfReadable } from '../../app/connector-states.ts';
import { usage } from '../../core/usage-error.ts';
import { strictObject } from '../../definitions/schema-problems.ts';
import { aboutRecords, type Answer, answer, fitting, jsonOf } from '../answer.ts';
import { type EntityState, oldestOf, stateFacts, stateOf } from '../entity-states.ts';
import { describeEntity, openEntity, readConnectors } from '../shown-entities.ts';
import type { ShownConnector, ShownEntity, StoredConnector } from '../shown-entities.ts';
import { mostOfCell } from '../sql/query-limits.ts';
import { tool, type ToolWorld } from '../tool.ts';
import { formatDuration } from '../../settings/texts.ts';
import type { ConnectorOverview } from '../../sinks/ledger-reader.ts';
import { counted } from '../../telemetry/format.ts';

/** Connectors whose sinks are read for one answer. */
export const mostConnectors = 200;

export const listEntities = tool({
  name: 'list_entities',
  title: 'What is stored',
  description:
    'What is stored here, from which services, how many rows, as of when, and whether it is complete. Call it first. Without arguments: all connectors with their entities. With a connector: its entities and what they hold. With an entity: its fields and what they mean.',
  input: strictObject({
    name: z
      .string()
      .max(200)
      .optional()
      .describe('a connector such as "newsletter", or an entity such as "newsletter/campaigns"'),
    after: z.string().max(200).optional().describe('to go on: from "next" of the answer before'),
  }),
  run: async (world, { name, after }) => {
    if (name === undefined) return await everyConnector(world, after ?? '');
    return name.includes('/')
      ? await oneEntity(world.shown.named(name))
      : await oneConnector(world, world.shown.connectorNamed(name), after ?? '');
  },
});

async function everyConnector({ shown }: ToolWorld, after: string): Promise<Answer> {
  const all = shown.connectors.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const left = all.filter(({ name }) => name > after);
  const page = left.slice(0, mostConnectors);
  const states = await readConnectors(page);
  const lines = fitting(
    page.map((connector) => connectorLine(connector, shown.of(connector), states)),
    jsonOf,
  );
  return answer({
    connectors: lines,
    ...(lines.length < left.length ? { next: { after: lines.at(-1)?.connector } } : {}),
    note: 'Entities with their numbers of rows. as_of: what changed in the service before is stored.',
  });
}

function connectorLine(
  connector: ShownConnector,
  entities: readonly ShownEntity[],
  states: ReadonlyMap<string, StoredConnector>,
) {
  const { status = null, freshness = [], problem = null } = states.get(connector.name) ?? {};
  if (problem !== null) return { ...namesOf(connector), problem };
  const each = entities.flatMap((entity) => {
    const { table } = entity.target;
    const found = stateOf(entity, status, freshness);
    return isStored(entity, found) ? [{ name: table.entity, found }] : [];
  });
  const asOf = oldestOf(each.map(({ found }) => found));
  return {
    ...namesOf(connector),
    as_of: asOf,
    complete: each.length > 0 && each.every(({ found }) => found.doubts.length === 0),
    entities: each.map(({ name, found }) => `${name} ${found.rows}${remark(found)}`),
  };
}

function namesOf({ name, definition }: ShownConnector) {
  return { connector: name, of: definition.title };
}

/** What is neither read nor stored is not there for a reader. */
function isStored({ target }: ShownEntity, { rows }: EntityState): boolean {
  return rows > 0 || target.connector.entities.has(target.entity.name);
}

function remark({ doubts, withheld }: EntityState): string {
  const all = [...doubts, ...(withheld === 0 ? [] : [`${withheld} deletes withheld`])];
  return all.length === 0 ? '' : ` (${all.join('; ')})`;
}

async function oneConnector({ shown }: ToolWorld, connector: ShownConnector, after: string): Promise<Answer> {
  const states = await readConnectors([connector]);
  const { status = null, freshness = [], problem } = states.get(connector.name) ?? {};
  const rows = shown
    .of(connector)
    .map((entity) => ({ entity, state: stateOf(entity, status, freshness) }))
    .filter(({ entity, state }) => isStored(entity, state) && entity.target.table.entity > after)
    .toSorted((one, other) => (one.entity.target.table.entity < other.entity.target.table.entity ? -1 : 1));
  const asOf = oldestOf(rows.map(({ state }) => state));
  const lines = rows.map(({ entity, state }) => {
    const { about, key } = describeEntity(entity, null);
    const { as_of: own, complete, ...more } = stateFacts(state);
    return {
      entity: entity.target.name,
      rows: state.rows,
      about,
      key,
      ...(own === asOf ? {} : { as_of: own }),
      ...(complete ? {} : { complete }),
      ...more,
    };
  });
  const fit = fitting(lines, jsonOf);
  return answer({
    ...namesOf(connector),
    ...(typeof problem === 'string' ? { problem } : {}),
    as_of: asOf,
    note: 'Where an entity does not say otherwise, it is as of as_of, and complete.',
    entities: fit,
    ...(fit.length < lines.length ? { next: { after: fit.at(-1)?.entity.split('/')[1] } } : {}),
  });
}

async function oneEntity(entity: ShownEntity): Promise<Answer> {
  const { target } = entity;
  await using opened = await openEntity(entity);
  const { state, stored } = opened;
  const { about, key, joins, fields } = describeEntity(entity, stored);
  return answer({
    entity: target.name,
    about,
    rows: state.rows,
    ...stateFacts(state),
    key,
    ...(joins.length === 0 ? {} : { joins }),
    fields: fields.map(
      (field) => `${field.name} ${field.type}${field.about === '' ? '' : `: ${field.about}`}`,
    ),
  });
}

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
