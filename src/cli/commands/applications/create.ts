import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import type { ApplicationFlags } from '../applications.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { madeUpSecret } from '../serve/choose-application.ts';
import { servedOrganization } from '../serve/served-accounts.ts';
import { openApplications } from './open-applications.ts';

export async function runApplicationsCreate(
  { terminal, clock, cwd }: CommandContext,
  { data, organization = servedOrganization }: ApplicationFlags,
): Promise<ExitCode> {
  using applications = await openApplications(resolve(cwd, data), clock, { isMade: true });
  const clientSecret = madeUpSecret().reveal();
  const clientId = `client-${randomBytes(6).toString('hex')}`;
  applications?.put({ organizationName: organization, clientId, clientSecret });
  terminal.printJson({ organization, clientId, clientSecret });
  terminal.print(`New client of organization ${organization}; its secret is shown this once:`);
  terminal.print(`  client id      ${clientId}`);
  terminal.print(`  client secret  ${clientSecret}`);
  return exitCodes.ok;
}
