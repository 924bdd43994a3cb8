import { resolve } from 'node:path';
import { usage } from '../../../core/usage-error.ts';
import type { ApplicationFlags } from '../applications.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { shellWord } from '../../program-name.ts';
import { openApplications } from './open-applications.ts';

export async function runApplicationsDelete(
  { terminal, clock, cwd, program }: CommandContext,
  clientId: string,
  { data }: ApplicationFlags,
): Promise<ExitCode> {
  using applications = await openApplications(resolve(cwd, data), clock, { isMade: false });
  if (applications?.delete(clientId) !== true) {
    throw usage(
      `There is no client ${clientId} in ${data}. See "${program} applications list --data ${shellWord(data)}".`,
    );
  }
  terminal.printJson({ deleted: clientId });
  terminal.print(`${clientId} is deleted: its secret and tokens stop working.`);
  return exitCodes.ok;
}
