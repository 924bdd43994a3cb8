import {
  derivedType,
  type DerivedColumn,
  type DescribedTable,
  type TableJoin,
  type EntityTable,
} from '../core/records.ts';
import type { EntityName } from '../core/names.ts';
import type { Definition, Entity } from './definition.ts';

/** Describes the tables of an entity and of its exploded arrays. `parents`: the parents that this connector reads. */
export function describeTables(entity: Entity, parents: readonly EntityName[]): readonly DescribedTable[] {
  const { table, explodedTable, description, descriptions, derived } = entity;
  const described = (names: readonly string[]): Readonly<Record<string, string>> =>
    Object.fromEntries([...descriptions].filter(([name]) => names.includes(name)));
  const namesOf = ({ columns }: Entity['table']): readonly string[] => columns.map(({ name }) => name);
  const own = {
    entity: table.entity,
    description,
    columns: described(namesOf(table)),
    derived,
    joins: joinsOf(entity, parents),
  };
  if (explodedTable === null) return [own];
  const carries = entity.key.every((part) => entity.explode?.carry.includes(part) === true);
  const joins = carries ? [{ columns: entity.key, parent: table.entity, parentColumns: entity.key }] : [];
  return [
    own,
    {
      entity: explodedTable.entity,
      description: null,
      columns: described(namesOf(explodedTable)),
      derived: [],
      joins,
    },
  ];
}

/** Where several kinds of parents lead to an entity, no join holds for every row. */
function joinsOf(entity: Entity, chosen: readonly EntityName[]): readonly TableJoin[] {
  const joins = entity.parents
    .filter((parent) => chosen.includes(parent.entity))
    .map(({ entity: parent, inject, params, parts }): TableJoin => {
      const pairs = [...inject].flatMap(([column, param]) => {
        const field = params.get(param);
        return field === undefined ? [] : [[column, field] as const];
      });
      // Members of an object, and parts of a text, have no column.
      if (parts.size > 0 || pairs.some(([, field]) => field.includes('.'))) {
        return { columns: [], parent, parentColumns: [] };
      }
      return {
        columns: pairs.map(([column]) => column),
        parent,
        parentColumns: pairs.map(([, field]) => field),
      };
    });
  const [only, ...others] = joins;
  return only === undefined || others.length > 0 || only.columns.length === 0 ? [] : [only];
}

/**
 * Builds a Markdown dictionary of the tables of a connector type, for people who query them. `command` recreates it.
 */
export function dataDictionary(definition: Definition, command: string): string {
  const { title, entities } = definition;
  const parts = [...entities.values()].flatMap((entity) => {
    const byDefault = entity.parents.filter((parent) => parent.byDefault).map((parent) => parent.entity);
    const [own, exploded] = describeTables(entity, byDefault);
    return [
      ...(own === undefined ? [] : section(entity, entity.table, own)),
      ...(exploded === undefined || entity.explodedTable === null
        ? []
        : section(entity, entity.explodedTable, exploded)),
    ];
  });
  return [
    `# Data of ${title}`,
    '',
    `The tables of a connector with \`definition: ${definition.name}\`. Made by \`${command}\`: do not edit.`,
    '',
    'A table is called `<connector>__<entity>`, and `<connector>__<entity>_current` is its view of rows that are not deleted. Objects, arrays and `any` are JSON.',
    '',
    ...parts,
  ].join('\n');
}

function section(entity: Entity, table: EntityTable, described: DescribedTable): readonly string[] {
  const { columns: meanings, derived, joins, description } = described;
  const key = table.key.map((name) => `\`${name}\``).join(', ');
  const exploded =
    table === entity.table ? null : `Elements of \`${entity.explode?.field ?? ''}\` of \`${entity.name}\``;
  const about = [description, exploded].flatMap((text) => (text === null ? [] : [`${escaped(text)}.`]));
  const joined = joins.map(
    ({ columns, parent, parentColumns }) =>
      `${columns.map((name) => `\`${name}\``).join(', ')} is ${parentColumns.map((name) => `\`${parent}.${name}\``).join(', ')}.`,
  );
  const referring = [...(table === entity.table ? entity.references : [])].map(
    ([path, target]) => `\`${path}\` refers to \`${target.entity}.${target.field}\`.`,
  );
  const kept = entity.deletes === 'never' ? ['Rows are never deleted.'] : [];
  return [
    `## ${table.entity}`,
    '',
    [...about, `Key: ${key}.`, ...joined, ...referring, ...kept].join(' '),
    '',
    '| column | type | meaning |',
    '| --- | --- | --- |',
    ...table.columns.map(({ name, type }) => `| \`${name}\` | ${type} | ${escaped(meanings[name] ?? '')} |`),
    ...derived.map(
      (column) => `| \`${column.name}\` | ${derivedType(column.as)} | In the view alone: ${madeOf(column)} |`,
    ),
    '',
  ];
}

function madeOf({ from, path, as }: DerivedColumn): string {
  if (as !== 'texts') return escaped([...from, ...path].join('.'));
  return `the texts at \`${path.join('.')}\` of ${from.map((field) => `\`${field}\``).join(', ')}`;
}

/** Escapes texts of a definition: they are no Markdown, and do not end a cell. */
function escaped(text: string): string {
  return text.replaceAll(/[\\|`*_<[\]]/g, (character) => `\\${character}`);
}
