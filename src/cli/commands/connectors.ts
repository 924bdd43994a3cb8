import type { Command } from 'commander';
import type { Enter } from '../command-context.ts';
import { runCreate, type CreateFlags } from './connectors/create-connector.ts';
import { runDelete } from './connectors/delete-connector.ts';
import { runListConnectors, type ListFlags } from './connectors/list-connectors.ts';

const examples = `
Examples:
  $ connector-sync connectors list --workspace acme
  $ connector-sync connectors create --workspace acme --definition email-marketing --credentials-file mail.json
  $ connector-sync connectors delete 6f9c...            what would be deleted?  with --yes: delete it

These are the connectors behind the API; "connector-sync status" shows those that the config syncs.`;

export function addConnectors(connectors: Command, enter: Enter): void {
  connectors.addHelpText('after', examples);
  addListConnectors(connectors, enter);
  addCreate(connectors, enter);
  addDelete(connectors, enter);
}

function addListConnectors(connectors: Command, enter: Enter): void {
  connectors
    .command('list')
    .description('List the connectors of some workspaces, or of all that the credentials may see.')
    .option('--workspace <name...>', 'only of these workspaces')
    .option('--definition <name>', 'only of this type: the name of a definition, or its id in the API')
    .addHelpText(
      'after',
      '\nExample:\n  $ connector-sync connectors list --definition email-marketing --json | jq -r .connectors[].id',
    )
    .action((flags: ListFlags) => enter((context) => runListConnectors(context, flags)));
}

function addCreate(connectors: Command, enter: Enter): void {
  connectors
    .command('create')
    .description('Create a connector; prints its id and the config lines for it.')
    .requiredOption('--workspace <name>', 'the workspace; some APIs create a missing one')
    .requiredOption('--definition <name>', 'its type: the name of a definition, or its id at the API')
    .option('--name <text>', 'its display name (default: chosen by the API)')
    .option(
      '--credentials-file <file>',
      'a JSON object of strings, in a file that only you can read; - or left out: standard input',
    )
    .addHelpText(
      'after',
      `
The credentials are those of the third party. Their form is checked before anything is sent; whether they are right shows
with the first call. The request is sent once: if an error leaves open whether it succeeded, look at the list first.

Examples:
  $ connector-sync connectors create --workspace acme --definition email-marketing --credentials-file mail.json
  $ vault read -format=json secret/notes | connector-sync connectors create --workspace acme --definition workspace-notes`,
    )
    .action((flags: CreateFlags) => enter((context) => runCreate(context, flags)));
}

function addDelete(connectors: Command, enter: Enter): void {
  connectors
    .command('delete')
    .description('Delete a connector behind the API; its synced records stay in the sink.')
    .argument('<id>', 'as "connectors list" shows it')
    .option('--yes', 'do it; without this, only show what would be removed')
    .addHelpText('after', '\nExample:\n  $ connector-sync connectors delete 6f9c2d1e --yes')
    .action((id: string, flags: { readonly yes?: boolean }) =>
      enter((context) => runDelete(context, id, flags.yes === true)),
    );
}
