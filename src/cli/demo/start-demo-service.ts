import { usage } from '../../core/usage-error.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../definitions/load-definitions.ts';
import type { Service } from '../../service/start-service.ts';
import { demoAccounts } from './demo-config.ts';
import { wholeNumber } from '../whole-number.ts';

/** The local service of the demo, with both sample accounts as they are at a revision. Throws USAGE for a port that cannot be used. */
export async function startDemoService(
  portText: string,
  clientSecret: string,
  revision = 0,
): Promise<Service> {
  const port = wholeNumber('--port', portText, 65_535);
  const { serveSamples } = await import('../commands/serve/serve-samples.ts');
  return await serveSamples({
    port,
    clientId: 'demo',
    clientSecret,
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    accounts: demoAccounts(revision),
    otherwise: { size: 'tiny', seed: 1, revision },
  }).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) throw error;
    throw usage(`Port ${port} is taken by another program. Leave --port out for any free one.`);
  });
}
