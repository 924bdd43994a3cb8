import * as z from 'zod';
import { strictObject } from '../../definitions/schema-problems.ts';
import { answer, fitting, jsonOf, type Answer } from '../answer.ts';
import { describeEntity } from '../describe-entity.ts';
import { oldestOf, stateFacts, stateOf, type EntityState } from '../entity-states.ts';
import { openEntity, readConnectors, type StoredConnector } from '../read-sinks.ts';
import type { ShownConnector, ShownEntity } from '../shown-entities.ts';
import { tool, type ToolWorld } from '../tool.ts';

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
