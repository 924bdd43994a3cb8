import type { Command } from 'commander';
import type { Enter } from './command-context.ts';
import { runCreate, type CreateFlags } from './connectors/create-connector.ts';
import { runDelete } from './connectors/delete-connector.ts';
import { runListConnectors, type ListFlags } from './connectors/list-connectors.ts';

const examples = `
Examples:
  $ connector-sync connectors list --workspace acme
  $ connector-sync connectors create --workspace acme --definition email-marketing --credentials-file mail.json
  $ connector-sync connectors delete 6f9c...            what would go?  with --yes: delete it

These are the connectors behind the API. Which of them are synced is said by the config: "connector-sync status".`;

export function addConnectors(program: Command, enter: Enter): void {
  const connectors = program
    .command('connectors')
    .description('The connectors behind the API: look at them, create one, delete one.')
    .addHelpText('after', examples);
  addListConnectors(connectors, enter);
  addCreate(connectors, enter);
  addDelete(connectors, enter);
}

function addListConnectors(connectors: Command, enter: Enter): void {
  connectors
    .command('list')
    .description('The connectors of some workspaces, or of all that the credentials may see.')
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
    .description('A new connector; prints its id and the lines that make the config read it.')
    .requiredOption(
      '--workspace <name>',
      'where it is to be; some services make a workspace they do not know',
    )
    .requiredOption('--definition <name>', 'its type: the name of a definition, or its id in the API')
    .option('--name <text>', "what people will call it (default: the service's own idea)")
    .option(
      '--credentials-file <file>',
      'a JSON object of texts that only you can read; - or nothing: standard input',
    )
    .addHelpText(
      'after',
      `
The credentials are those of the third party. What they must hold is checked before anything is sent; whether they are right
shows with the first call. The request is sent once: after an error that leaves open whether it was done, look at the list first.

Examples:
  $ connector-sync connectors create --workspace acme --definition email-marketing --credentials-file mail.json
  $ vault read -format=json secret/notes | connector-sync connectors create --workspace acme --definition workspace-notes`,
    )
    .action((flags: CreateFlags) => enter((context) => runCreate(context, flags)));
}

function addDelete(connectors: Command, enter: Enter): void {
  connectors
    .command('delete')
    .description('Deletes a connector behind the API; what has been synced of it stays in the sink.')
    .argument('<id>', 'as "connectors list" shows it')
    .option('--yes', 'do it; without this only what would go is shown')
    .addHelpText('after', '\nExample:\n  $ connector-sync connectors delete 6f9c2d1e --yes')
    .action((id: string, flags: { readonly yes?: boolean }) =>
      enter((context) => runDelete(context, id, flags.yes === true)),
    );
}
