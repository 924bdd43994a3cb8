import { describedService, type DescribedOptions, type DescribedService } from './described-service.ts';

interface KeyedOptions extends Pick<DescribedOptions, 'settings'> {
  /** `entities` of the definition, as YAML. */
  readonly entities: string;
  /** `upstream.entities`, as YAML on one line. */
  readonly requests: string;
  /** Answers what is asked beside the account. */
  readonly respond: DescribedOptions['respond'];
}

/** A service with one account, which a key opens. */
export async function keyedService(options: KeyedOptions): Promise<DescribedService> {
  const { entities, requests, respond, ...more } = options;
  return await describedService({
    definition: `
credentials: [{ title: Key, fields: { api_key: {} } }]
${entities}
upstream:
  baseUrl: $ORIGIN
  auth: { Key: { kind: bearer, token: { field: api_key } } }
  check: { path: /me, identity: id }
  limits: { concurrency: 4, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [error]
  entities: ${requests}
`,
    credentials: { api_key: 'k' },
    respond: (request, index) => (request.path === '/me' ? { body: { id: 'a' } } : respond(request, index)),
    ...more,
  });
}
