/** A fictional project with an environmental licence. */
export interface Project {
  name: string;
  kind: string;
  city: string;
  river: string;
  agency: string;
}

/** Nothing here exists: names, licences and figures are made up. */
export const PROJECTS: readonly Project[] = [
  ['Porto Seco Aroeira', 'terminal retroportuário', 'Vila Aroeira', 'rio Juçara', 'Instituto Estadual do Litoral'],
  [
    'Usina Canavial Alto',
    'usina de açúcar e etanol',
    'Campo Canavial',
    'ribeirão do Ouro',
    'Agência Ambiental do Planalto',
  ],
  [
    'Pedreira Serra Baixa',
    'pedreira de granito',
    'Serra Baixa',
    'córrego da Lapa',
    'Instituto Serrano de Meio Ambiente',
  ],
  ['Parque Eólico Vento Norte', 'parque eólico', 'Duna Branca', 'riacho Salgado', 'Secretaria do Clima do Norte'],
  [
    'Frigorífico Boa Pastagem',
    'frigorífico de bovinos',
    'Boa Pastagem',
    'rio Manso Velho',
    'Agência Ambiental do Planalto',
  ],
  ['Aterro Vale Limpo', 'aterro sanitário', 'Vale Limpo', 'córrego Taquari-Mirim', 'Instituto das Águas do Vale'],
  ['Mina Gruta Azul', 'mina de calcário', 'Gruta Azul', 'ribeirão Azulão', 'Instituto Serrano de Meio Ambiente'],
  ['Celulose Mata Clara', 'fábrica de celulose', 'Mata Clara', 'rio Claro Novo', 'Agência Florestal do Sul'],
  [
    'Hidrelétrica Salto Fundo',
    'pequena central hidrelétrica',
    'Salto Fundo',
    'rio do Salto',
    'Instituto das Águas do Vale',
  ],
  [
    'Termelétrica Ponta do Sol',
    'usina termelétrica a gás',
    'Ponta do Sol',
    'canal da Ponta',
    'Instituto Estadual do Litoral',
  ],
  ['Laticínio Campo Belo Novo', 'laticínio', 'Campo Belo Novo', 'ribeirão das Flores', 'Agência Ambiental do Planalto'],
  ['Curtume Três Barras', 'curtume', 'Três Barras', 'rio Três Barras', 'Agência Florestal do Sul'],
  [
    'Rodovia do Contorno Leste',
    'obra rodoviária',
    'Contorno Leste',
    'córrego do Meio',
    'Departamento de Licenças Viárias',
  ],
  ['Estaleiro Baía Serena', 'estaleiro naval', 'Baía Serena', 'enseada Serena', 'Instituto Estadual do Litoral'],
  [
    'Cimenteira Rocha Viva',
    'fábrica de cimento',
    'Rocha Viva',
    'riacho da Rocha',
    'Instituto Serrano de Meio Ambiente',
  ],
  [
    'Complexo Solar Chapada Alta',
    'usina fotovoltaica',
    'Chapada Alta',
    'riacho da Chapada',
    'Secretaria do Clima do Norte',
  ],
  ['Siderúrgica Forno Velho', 'siderúrgica', 'Forno Velho', 'rio Ferrugem', 'Instituto Serrano de Meio Ambiente'],
  [
    'Piscicultura Lago Verde',
    'piscicultura em tanques-rede',
    'Lago Verde',
    'lago Verde',
    'Instituto das Águas do Vale',
  ],
  ['Refinaria Costa Longa', 'refinaria de petróleo', 'Costa Longa', 'canal do Mangue', 'Instituto Estadual do Litoral'],
  [
    'Loteamento Jardim das Nascentes',
    'loteamento urbano',
    'Nascentes',
    'córrego das Nascentes',
    'Departamento de Licenças Urbanas',
  ],
].map(([name = '', kind = '', city = '', river = '', agency = '']) => ({ name, kind, city, river, agency }));
