import { isConnectorName } from '../../core/names.ts';
import type { Action, Definition, Entity, Parent } from '../../definitions/definition.ts';
import { connectorNamed } from '../../settings/choices.ts';
import type { LocalSettings } from '../../settings/settings.ts';
import { counted } from '../../telemetry/format.ts';
import { command, type CommandContext } from '../command.ts';
import { configuredWorkspaces, connectorTable, findInWorkspaces } from '../find-in-workspaces.ts';
import { picked } from '../output/json-text.ts';
import { openPatientApp } from '../output/show-run.ts';
import { wrapped } from '../output/text-table.ts';

const defaultWorkspace = 'default';

export const discover = command({
  argument: ['[connector]', 'a connector of the config, or the name of a definition'],
  options: { '--workspace <name...>': 'workspaces to look into (default: the config\'s, else "default")' },
  help: '\nExamples:\n  $ connector-sync discover --workspace default\n  $ connector-sync discover newsletter',
  run: async (context, flags, name) => {
    const settings = await context.settings('access');
    if (name !== undefined) return showDefinition(context, definitionOf(settings, name));
    await using app = await openPatientApp(context, settings, 'discover');
    const named = flags.workspace.length > 0 ? flags.workspace : configuredWorkspaces(settings);
    const workspaces = named.length > 0 ? named : [defaultWorkspace];
    const found = await findInWorkspaces(app, workspaces, null, false, context.signal);
    const { terminal } = context;
    terminal.printJson({ connectors: found });
    if (found.length === 0) terminal.print(`No connectors in workspace ${workspaces.join(', ')}.`);
    else terminal.print(...connectorTable(found, terminal.columns()));
  },
});

function definitionOf(settings: LocalSettings, name: string): Definition {
  const configured = isConnectorName(name) ? settings.connectors.get(name)?.definition : undefined;
  return configured ?? settings.definitions.get(name) ?? connectorNamed(settings, name).definition;
}

function showDefinition({ terminal }: CommandContext, definition: Definition): void {
  const entities = [...definition.entities.values()];
  terminal.printJson({
    definition: { name: definition.name, title: definition.title, id: definition.id },
    entities: entities.map(describeEntity),
  });
  terminal.print(
    `${definition.name} (${definition.title}), ${counted(entities.length, 'entity', 'entities')}`,
  );
  const lines = entities.flatMap(entityText).flatMap((line) => wrapped(line, terminal.columns()));
  terminal.print(...lines);
}

function describeEntity(entity: Entity) {
  const { explode } = entity;
  return {
    entity: entity.name,
    fields: entity.fields,
    key: entity.key,
    parents: entity.parents.map((parent) => picked(parent, 'entity', 'params', 'byDefault')),
    pagination: entity.pagination.kind,
    actions: Object.fromEntries([...entity.actions].map(([name, { params }]) => [name, { params }])),
    ...(explode === null ? {} : { explodes: picked(explode, 'field', 'into', 'key') }),
  };
}

function entityText(entity: Entity): readonly string[] {
  const fields = [...entity.fields].map(([name, type]) => `${name} ${type}`).join(', ');
  const actions = [...entity.actions].map(([name, action]) => `  ${name}(${paramsText(action)})`);
  return [
    '',
    `${entity.name}  key ${entity.key.join(', ')}${entity.parents.map(parentText).join('')}`,
    `  ${fields}`,
    ...actions,
    ...(entity.explode === null ? [] : [`  ${entity.explode.field} -> ${entity.explode.into}`]),
  ];
}

function parentText({ entity, params, byDefault }: Parent): string {
  const pairs = [...params].map(([param, field]) => `${param} = ${field}`).join(', ');
  return `  of ${entity} (${pairs})${byDefault ? '' : ' if chosen'}`;
}

function paramsText({ params }: Action): string {
  return [...params]
    .map(
      ([name, param]) =>
        `${name}${param.required ? '' : '?'}: ${param.enum === null ? param.type : param.enum.join('|')}`,
    )
    .join(', ');
}
