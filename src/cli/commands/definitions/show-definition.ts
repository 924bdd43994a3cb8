import { shapeText } from '../../../definitions/params.ts';
import {
  type Definition,
  type Entity,
  onlyText,
  pagingParams,
  type Parent,
  replacesRows,
} from '../../../definitions/definition.ts';
import { firstNames, suggestName } from '../../../definitions/suggest-name.ts';
import { isDeclaredName } from '../../../core/names.ts';
import { usage } from '../../../core/errors.ts';
import { walkParams } from '../../../settings/connector-settings.ts';
import { formatDuration } from '../../../settings/texts.ts';
import { count, counted } from '../../../telemetry/format.ts';
import { command, type CommandContext } from '../../command.ts';
import { picked } from '../../output/json-text.ts';
import { fact, wordsWithin } from '../../output/record-table.ts';
import { fittingTable, indentedTable, leftColumns, rightColumns } from '../../output/text-table.ts';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  builtInDefinitionsFolder,
  loadDefinition,
  loadDefinitions,
} from '../../../definitions/load-definitions.ts';
import type { LocalSettings } from '../../../settings/settings.ts';
import { configFile } from '../../load-config.ts';

export const listDefinitions = command({
  description: 'List the definitions that are here: those of the program and those of the config.',
  help: '\nExample:\n  $ connector-sync definitions list',
  run: async (context) => {
    const { terminal } = context;
    const settings = await settingsIfAny(context);
    const definitions = [...knownDefinitions(settings).values()];
    const connectors = [...(settings?.connectors.values() ?? [])];
    const all = definitions.map((definition) => ({
      ...aboutDefinition(definition),
      entities: [...definition.entities.keys()],
      connectors: connectors.flatMap((one) => (one.definition.name === definition.name ? [one.name] : [])),
    }));
    terminal.printJson({ definitions: all });
    const rows = all.map(({ name, title, entities, isDirect, connectors: named }) => [
      name,
      title,
      count(entities.length),
      isDirect ? 'directly or by the API' : 'by the API',
      named.join(', '),
    ]);
    terminal.print(...fittingTable(listColumns, rows, terminal.columns()));
  },
});

const listColumns = [
  ...leftColumns('name', 'title'),
  ...rightColumns('entities'),
  ...leftColumns('is read', 'connectors'),
];

export const showDefinition = command({
  description:
    'Show what a definition holds: entities, keys, parents, pages, how changes and deletes are found.',
  argument: ['<definition>', 'a name, or the path of a file'],
  second: ['[entity]', 'with its fields and parameters'],
  help: `
Examples:
  $ connector-sync definitions show email-marketing
  $ connector-sync definitions show ./my-definitions/issue-tracker.yaml issues`,
  run: async (context, _flags, nameOrFile, entityName) => {
    const { terminal } = context;
    const definition = definitionFrom(nameOrFile, context, await settingsIfAny(context));
    const one = entityName === undefined ? null : entityNamed(definition, entityName);
    const entities = one === null ? [...definition.entities.values()] : [one];
    terminal.printJson({
      definition: aboutDefinition(definition),
      entities: entities.map((entity) => describedEntity(entity, one !== null)),
    });
    const width = terminal.columns();
    if (one === null) terminal.print(...headText(definition, width));
    for (const entity of entities) {
      terminal.print(...(one === null ? [''] : []), ...entityText(entity, width));
    }
    if (one !== null) terminal.print('', ...fieldsText(one, width), '', ...paramsText(one, width));
  },
});

/** Finds an entity by name. Throws USAGE with the known names. */
export function entityNamed({ entities, name: definition }: Definition, name: string): Entity {
  const entity = isDeclaredName(name) ? entities.get(name) : undefined;
  if (entity !== undefined) return entity;
  const names = [...entities.keys()];
  const hint = suggestName(name, names) || `; expected one of ${names.join(', ')}.`;
  throw usage(`${definition} has no entity ${JSON.stringify(name)}${hint}`);
}

function aboutDefinition({ name, title, id, aliases, upstream }: Definition) {
  return { name, title, id, aliases, isDirect: upstream !== null };
}

function headText(definition: Definition, width: number | null): readonly string[] {
  const { name, title, entities, upstream, credentials, rateLimit, aliases } = definition;
  const others = aliases.length === 0 ? '' : `, also called ${aliases.join(', ')}`;
  const { requestsPerSecond, concurrency } = rateLimit;
  return [
    `${name}: ${title}${others}, ${counted(entities.size, 'entity', 'entities')}`,
    ...fact('read', upstream === null ? 'by the API' : 'by the API, or directly with credentials', width),
    ...credentials.flatMap((shape) => fact('sign in', shapeText(shape), width)),
    ...fact('rate', `at most ${requestsPerSecond} calls a second, ${concurrency} at a time`, width),
  ];
}

function entityText(entity: Entity, width: number | null): readonly string[] {
  const { name, key, parents, description, explode, recursive, actions, order, only } = entity;
  const others = [...actions.keys()].filter((action) => action !== 'list');
  return [
    ...(description === null ? [name] : wordsWithin(`${name}: ${description}`, '', width)),
    ...fact('key', key.join(', '), width),
    ...parents.flatMap((parent) => fact('parent', parentText(parent), width)),
    ...fact('pages', pagesText(entity), width),
    ...(order === null ? [] : fact('order', `by ${order.field}`, width)),
    ...fact('changes', changesText(entity), width),
    ...fact('deletes', deletesText(entity), width),
    ...(only.length === 0 ? [] : fact('only', `records whose ${onlyText(only)}`, width)),
    ...(recursive === null
      ? []
      : fact('tree', `records with listings of their own, to a depth of ${recursive.maxDepth}`, width)),
    ...(explode === null ? [] : fact('arrays', `${explode.field} becomes rows of ${explode.into}`, width)),
    ...(others.length === 0 ? [] : fact('also has', others.join(', '), width)),
  ];
}

function parentText({ entity, params, byDefault, when }: Parent): string {
  const pairs = [...params].map(([param, field]) => `${param} is its ${field}`).join(', ');
  const some = when.length === 0 ? '' : '; not of every record';
  return `${entity} (${pairs})${some}${byDefault ? '' : '; only if the settings choose it'}`;
}

function pagesText({ pagination }: Entity): string {
  if (pagination.kind === 'single') return 'one answer has everything';
  const last = pagination.kind === 'lastRecord' ? `the ${pagination.field} of the last record` : null;
  const params = pagingParams(pagination).map(({ name }) => name);
  const { maxSize } = pagination;
  const size = maxSize === null ? '' : `, at most ${count(maxSize)} records each`;
  return `by ${last ?? pageWords[pagination.kind]} (${params.join(', ')})${size}`;
}

const pageWords = { offset: 'offset', page: 'number', pageToken: 'token', lastRecord: 'record' };

function changesText({ incremental, windows }: Entity): string {
  if (windows !== null) return windowsText(windows);
  if (incremental === null) return 'every sync reads everything';
  const { field, lookbackMs } = incremental;
  const back = `again from ${formatDuration(lookbackMs)} before the newest known`;
  switch (incremental.kind) {
    case 'keyset':
    case 'since':
      return `by ${field}: asks with ${incremental.sinceParam} for what changed, ${back}`;
    case 'newestFirst':
      return `by ${field}: reads the newest first, ${back}`;
  }
}

function windowsText({ fromParam, toParam, step, lookbackMs }: NonNullable<Entity['windows']>): string {
  const params = [fromParam, toParam].filter((name) => name !== null).join(' and ');
  const each = 'days' in step ? counted(step.days, 'day') : counted(step.months, 'month');
  return `in windows of ${each} (${params}), each again until it ended ${formatDuration(lookbackMs)} ago`;
}

function deletesText(entity: Entity): string {
  const { deletes, actions, incremental } = entity;
  const waits = incremental === null ? '' : '; only by a full read (fullEvery)';
  if (replacesRows(entity)) return 'a window that is read to its end replaces its rows';
  switch (deletes) {
    case 'sweep':
      return `a full read in a fixed order does not return the record${waits}`;
    case 'confirm':
      return actions.has('get')
        ? `a full read does not return the record, and get finds none${waits}`
        : `two full reads do not return the record${waits}`;
    case 'never':
      return 'never: what was read stays';
  }
}

function fieldsText(entity: Entity, width: number | null): readonly string[] {
  const { fields, key, ignored, volatile, descriptions, parents, inject: own } = entity;
  const filledIn = new Map([...own, ...parents.flatMap(({ inject }) => [...inject])]);
  const rows = [...fields].map(([name, type]) => {
    const param = filledIn.get(name);
    const notes = [
      ...(key.includes(name) ? ['key'] : []),
      ...(param === undefined ? [] : [`filled from ${param}`]),
      ...(volatile.some(([first, ...rest]) => first === name && rest.length === 0) ? ['volatile'] : []),
      ...(descriptions.get(name) === undefined ? [] : [descriptions.get(name) ?? '']),
    ];
    return [name, type, notes.join('; ')];
  });
  const dropped = ignored.size === 0 ? [] : fact('dropped', [...ignored].join(', '), width);
  return ['fields', ...indentedTable(leftColumns('name', 'type', 'notes'), rows, width), ...dropped];
}

function paramsText(entity: Entity, width: number | null): readonly string[] {
  const list = entity.actions.get('list');
  const filled = entity.parents.flatMap(({ entity: parent, params }) =>
    [...params].map(([name, field]) => [name, `${field} of ${parent}`] as const),
  );
  const each = [...entity.each].map(([name, { values, setting }]) => {
    return [
      name,
      values === null ? `each of the setting ${setting ?? ''}` : `each of ${values.join(', ')}`,
    ] as const;
  });
  const setBy = new Map([...filled, ...each, ...walkParams(entity)]);
  const rows = [...(list?.params ?? [])].map(([name, param]) => [
    name,
    param.type,
    [
      setBy.get(name) ?? (param.required ? 'required' : ''),
      param.enum === null ? '' : `one of ${param.enum.join(', ')}`,
      param.max === null ? '' : `at most ${param.max}`,
    ]
      .filter((note) => note !== '')
      .join('; '),
  ]);
  if (rows.length === 0) return ['list takes no parameters'];
  return ['parameters of list', ...indentedTable(leftColumns('name', 'type', 'notes'), rows, width)];
}

function describedEntity(entity: Entity, isWhole: boolean) {
  const { name, actions, explode } = entity;
  return {
    entity: name,
    ...picked(entity, 'description', 'key', 'parents', 'pagination', 'order', 'deletes'),
    incremental: entity.incremental ?? entity.windows,
    explodesInto: explode?.into ?? null,
    actions: isWhole ? actions : [...actions.keys()],
    ...(isWhole ? picked(entity, 'fields', 'ignored') : {}),
  };
}

/** The config; null if there is none and none was named: definitions can be written before it. */
export async function settingsIfAny(context: CommandContext): Promise<LocalSettings | null> {
  const isAskedFor = context.config !== null || (context.env['CONNECTOR_SYNC_CONFIG'] ?? '') !== '';
  return isAskedFor || existsSync(configFile(context)) ? await context.settings() : null;
}

/** The definitions of the config; without a config, those that come with the program. */
function knownDefinitions(settings: LocalSettings | null): ReadonlyMap<string, Definition> {
  return settings?.definitions ?? loadDefinitions([builtInDefinitionsFolder]);
}

/**
 * Finds a definition by its name, or by the path of its file, which need not be in the config. Throws USAGE for an
 * unknown name, and `ProblemsError` for a file with mistakes.
 */
export function definitionFrom(
  nameOrFile: string,
  { cwd }: Pick<CommandContext, 'cwd'>,
  settings: LocalSettings | null,
): Definition {
  if (/[/\\]|\.ya?ml$/.test(nameOrFile)) return loadDefinition(resolve(cwd, nameOrFile));
  const known = knownDefinitions(settings);
  const isAlias = (alias: string): boolean => alias.toLowerCase() === nameOrFile.toLowerCase();
  const found = known.get(nameOrFile) ?? [...known.values()].find(({ aliases }) => aliases.some(isAlias));
  if (found !== undefined) return found;
  const names = [...known.keys()];
  const titles = [...known.values()].map(({ name, aliases }) => [name, ...aliases].join(' or '));
  const hint =
    suggestName(nameOrFile, names) || `; known are ${firstNames(titles)}, or give the path of a file.`;
  throw usage(`There is no definition "${nameOrFile}"${hint}`);
}
