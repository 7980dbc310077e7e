import { Cli } from 'kysely-codegen';

/**
 * Types of the tables and views of schema `madrugada`, as this code's connections return their values (src/postgres/value-types.ts). Partitions
 * are left out: they come with batches.
 */
export async function generateSchemaTypes(url: string): Promise<string> {
  const types = await new Cli().generate({
    url,
    logLevel: 'warn',
    dialect: 'postgres',
    defaultSchemas: ['madrugada'],
    includePattern: 'madrugada.*',
    dateParser: 'string',
    numericParser: 'string',
    typeMapping: { int8: 'number' },
    outFile: null,
  });
  return types.replace('Please do not edit it manually.', 'Renew it with: npm run types:generate');
}
