import type { App } from '../../app/app.ts';
import { type ConnectorId, isConnectorId } from '../../core/names.ts';
import { usage } from '../../core/errors.ts';
import { openAdministration } from '../../source/api/open-api-client.ts';
import { printable } from '../../telemetry/format.ts';
import { command, type CommandContext, oneOf } from '../command.ts';
import {
  configuredWorkspaces,
  connectorTable,
  definitionWithId,
  everyWorkspace,
  findInWorkspaces,
} from '../find-in-workspaces.ts';
import { exitCodes } from '../output/exit-codes.ts';
import { openPatientApp } from '../output/show-run.ts';
import { fittingTable, leftColumns } from '../output/text-table.ts';
import { addConnector } from './add-connector.ts';
import { createConnector, definitionNamed, removeConnector } from './connector-edits.ts';

export const connectors = command({
  help: `
Examples:
  $ connector-sync connectors list --workspace acme
  $ connector-sync connectors create --workspace acme --definition email-marketing --credentials-file mail.json
  $ connector-sync connectors check 6f9c...             does the service behind it take its credentials?
  $ connector-sync connectors delete 6f9c...            what would be deleted?  with --yes: delete it
  $ connector-sync connectors add newsletter --definition email-marketing --workspace acme
  $ connector-sync connectors remove newsletter

"add" and "remove" edit the config file. The others are about the connectors behind the API;
"connector-sync status" shows all that the config syncs.`,
  commands: {
    add: addConnector,
    remove: removeConnector,
    list: command({
      description: 'List the connectors of some workspaces, or of all that the credentials may see.',
      options: {
        '--workspace <name...>': 'only of these workspaces',
        '--definition <name>': 'only of this type: the name of a definition, or its id in the API',
      },
      help: '\nExample:\n  $ connector-sync connectors list --definition email-marketing --json | jq -r .connectors[].id',
      run: async (context, flags) => {
        const { terminal, signal } = context;
        const settings = await context.settings('api', 'access');
        const definitionId =
          flags.definition === undefined ? null : definitionNamed(settings, flags.definition).id;
        await using app = await openPatientApp(context, settings, 'connectors list');
        const isOfAll = flags.workspace.length === 0;
        const workspaces = isOfAll ? await everyWorkspace(app, settings.api, signal) : flags.workspace;
        const found = await findInWorkspaces(app, workspaces, definitionId, isOfAll, signal);
        terminal.printJson({ connectors: found });
        if (found.length === 0) terminal.print('No connectors.');
        else terminal.print(...connectorTable(found, terminal.columns()));
      },
    }),
    create: createConnector,
    check: command({
      description: 'Ask the API whether the service behind a connector takes its credentials.',
      argument: ['<id>', 'as "connectors list" shows it'],
      help: '\nExit code: 0 if it does, 4 if not.\n\nExample:\n  $ connector-sync connectors check 6f9c2d1e',
      run: async (context, _flags, text) => {
        const settings = await context.settings('api', 'access');
        const { terminal, signal } = context;
        const id = connectorId(text);
        await using app = await openPatientApp(context, settings, 'connectors check');
        const why = await openAdministration(app.client, settings.api.baseUrl).checkConnector(id, signal);
        terminal.printJson({ id, isOk: why === null, why });
        terminal.print(why === null ? `${id}: its credentials are taken.` : `${id}: ${printable(why)}`);
        return why === null ? exitCodes.ok : exitCodes.authentication;
      },
    }),
    delete: command({
      description: 'Delete a connector behind the API; its synced records stay in the sink.',
      argument: ['<id>', 'as "connectors list" shows it'],
      options: { '--yes': 'do it; without this, only show what would be removed' },
      help: '\nExample:\n  $ connector-sync connectors delete 6f9c2d1e --yes',
      run: async (context, { yes: isSure }, text) => {
        const settings = await context.settings('api', 'access');
        const { terminal, signal } = context;
        const id = connectorId(text);
        await using app = await openPatientApp(context, settings, 'connectors delete');
        const using = await readersOf(app, id, signal);
        if (!isSure) {
          const { name, definitionId } = await app.client.connector(id, signal);
          const definition = definitionWithId(settings, definitionId);
          const command = `${context.program} connectors delete ${id} --yes`;
          const type = definition?.name ?? null;
          terminal.printJson({ id, name, definition: type, using, isDone: false, command });
          terminal.print(
            `${id}${name === null ? '' : ` (${printable(name)})`}, ${type ?? 'a type without a definition here'}, would be deleted.`,
          );
          tellUsing(context, using);
          terminal.print(`Nothing was changed. To do it: ${command}`);
          return;
        }
        const job = await openAdministration(app.client, settings.api.baseUrl).deleteConnector(id, signal);
        terminal.printJson({ id, using, isDone: true, job });
        terminal.print(`${id} is deleted${job === null ? '' : ` (job ${printable(job)})`}.`);
        tellUsing(context, using);
      },
    }),
  },
});

function connectorId(text: string): ConnectorId {
  if (isConnectorId(text)) return text;
  throw usage(`Expected the id of a connector (letters, digits, "_" and "-"), got "${text}".`);
}

/** Names of the config's connectors that read it: by its id, or as the only one of its type in its workspace. */
async function readersOf(app: App, id: string, signal: AbortSignal): Promise<readonly string[]> {
  const all = await findInWorkspaces(app, configuredWorkspaces(app.settings), null, true, signal);
  const found = all.find((one) => one.id === id);
  return [...app.settings.connectors.values()]
    .filter(({ name, address }) =>
      address.kind === 'id' ? address.id === id : found?.configured.includes(name) === true,
    )
    .map(({ name }) => name);
}

function tellUsing({ terminal }: CommandContext, using: readonly string[]): void {
  if (using.length === 0) return;
  terminal.print(
    `The config's ${using.join(', ')} ${using.length === 1 ? 'reads' : 'read'} it: without it, syncs of it fail. What is stored stays.`,
  );
}

export const workspaces = command({
  help: '\nExample:\n  $ connector-sync workspaces list',
  commands: {
    list: command({
      description: 'List every workspace that the credentials may see.',
      options: {
        '--name <text>': 'only names that contain the text (case-insensitive)',
        '--status <status>': 'active or inactive; the connectors of an inactive one are switched off',
      },
      help: '\nExample:\n  $ connector-sync workspaces list --name acme --status active',
      run: async (context, { name, status }) => {
        const settings = await context.settings('api', 'access');
        const { terminal, signal } = context;
        const filter = {
          nameContains: name ?? null,
          status: status === undefined ? null : oneOf('--status', status, ['active', 'inactive']),
        };
        await using app = await openPatientApp(context, settings, 'workspaces');
        const found = await openAdministration(app.client, settings.api.baseUrl).workspaces(filter, signal);
        terminal.printJson({ workspaces: found });
        if (found.length === 0) terminal.print('No workspaces.');
        const rows = found.map((one) => [one.name, one.id, one.status ?? '', one.createdAt ?? '']);
        if (rows.length > 0) {
          terminal.print(
            ...fittingTable(leftColumns('name', 'id', 'status', 'created'), rows, terminal.columns()),
          );
        }
      },
    }),
  },
});
