import type { Command } from 'commander';
import { runApplicationsCreate } from './applications/create.ts';
import { runApplicationsDelete } from './applications/delete.ts';
import { runApplicationsList } from './applications/list.ts';
import type { Enter } from './command-context.ts';
import { defaultDataFolder } from './serve/served-accounts.ts';

export interface ApplicationFlags {
  readonly data: string;
  readonly organization?: string;
}

const examples = `
Examples:
  $ connector-sync applications create
  $ connector-sync applications create --organization acme
  $ connector-sync applications list
  $ connector-sync applications delete client-4f1c09a7b2d3

They work while no "connector-sync serve" runs on the folder. Organizations see nothing of each other.`;

export function addApplications(program: Command, enter: Enter): void {
  const applications = program
    .command('applications')
    .description('Who may use the API that "connector-sync serve" serves: client ids and secrets.')
    .addHelpText('after', examples);
  const withData = (command: Command): Command =>
    command.option('--data <folder>', 'of the service', defaultDataFolder);

  withData(applications.command('create'))
    .description('Make up a client id and a secret, and print them: the only time the secret is shown.')
    .option('--organization <name>', 'whom they are for; made where there is none of this name', 'default')
    .action((flags: ApplicationFlags) => enter((context) => runApplicationsCreate(context, flags)));

  withData(applications.command('list'))
    .description('Every client id, its organization and when it was made. Secrets cannot be shown.')
    .option('--organization <name>', 'of this one alone')
    .action((flags: ApplicationFlags) => enter((context) => runApplicationsList(context, flags)));

  withData(applications.command('delete'))
    .description('Shut a client out: its secret and its tokens work no more. Workspaces and connectors stay.')
    .argument('<client-id>', 'see "connector-sync applications list"')
    .action((clientId: string, flags: ApplicationFlags) =>
      enter((context) => runApplicationsDelete(context, clientId, flags)),
    );
}
