import { expect } from 'vitest';
import type { JsonValue } from '../../../src/core/json.ts';
import { openApiDocument } from '../../../src/service/reference/open-api-document.ts';
import { apiEndpoints } from '../../../src/service/routes/api-endpoints.ts';
import type { Endpoint } from '../../../src/service/routes/endpoint.ts';
import { apiError } from '../../../src/service/api-error.ts';

const { paths } = openApiDocument(apiEndpoints, []);

/**
 * Holds an answer against what its endpoint declares: the status is among the declared ones, the body is of the
 * declared shape.
 */
export function expectDeclared(method: string, path: string, status: number, body: JsonValue): void {
  const endpoint = endpointFor(method, path);
  const isSuccess = endpoint?.success.status === status;
  const shape = isSuccess ? endpoint.success.body : apiError;
  const parsed = shape.safeParse(body);
  expect([method, path, status, parsed.error?.issues ?? []]).toEqual([method, path, status, []]);
  // What the shape does not know it leaves out: nothing may be missing now.
  expect(parsed.data).toEqual(body);
  if (endpoint !== undefined) {
    const declared = Object.keys(paths[endpoint.path]?.[method.toLowerCase()]?.responses ?? {});
    expect([method, path, declared]).toEqual([method, path, expect.arrayContaining([String(status)])]);
  }
}

/** Undefined: there is none. */
function endpointFor(method: string, path: string): Endpoint | undefined {
  const [plain = ''] = path.split('?', 1);
  const fits = (endpoint: Endpoint): boolean => {
    const parts = endpoint.path.split('/');
    const given = plain.split('/');
    return (
      parts.length === given.length &&
      parts.every((part, index) => (part.startsWith('{') ? given[index] !== '' : part === given[index]))
    );
  };
  const fitting = apiEndpoints.filter((endpoint) => endpoint.method === method && fits(endpoint));
  // A path without a parameter wins, as in the server.
  return fitting.find(({ path: own }) => !own.includes('{')) ?? fitting[0];
}
