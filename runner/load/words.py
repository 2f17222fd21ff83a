"""Common English words, each one token (with its leading space) in the usual BPE vocabularies. PURE."""

_TEXT = """
able about above across action active after again against age ahead air all almost alone along already also always
among amount animal another answer any area arm around art ask away back bad bank bar base basic bed before begin
behind best better between big bit black blood blue board body book both bottom box break bring brother brown build
building business call car card care carry case catch cause center central century certain chance change character
check child choice church city class clean clear close cloth club cold color come common company complete condition
contact control cook cool corner cost country course court cover create cross crowd cup current cut daily danger dark
data date daughter day dead deal dear death decision deep degree demand design desk detail different difficult dinner
direct direction distance doctor dog door double down dream dress drink drive drop dry during each early earth east
easy edge education effect effort eight either else empty end energy engine enough entire evening event ever every
evidence example experience eye face fact fall family famous far farm fast father fear feel feet few field fight
figure film final find fine finger finish fire firm first fish five floor flow food foot force foreign forest form
forward four free fresh friend front fruit full future game garden gas general girl glass goal gold good government
grand great green ground group growth guide hair half hall hand happy hard head health heart heat heavy help here high
hill history hold hole holiday home hope horse hospital hot hotel hour house huge human hundred ice idea image
important inch include increase inside interest iron island issue item job join key kind king kitchen knowledge lady
lake land language large last late law lead leader learn leave left less letter level life light limit line list
little local long look loss love low machine main major manager many map mark market master matter meaning measure
medical meeting member memory message metal method middle mile military million mind minute model modern moment money
month moon moral morning mother mountain mouth movement music name narrow nation nature near network never news next
night north note number object ocean offer office oil old once open opinion order other outside paper parent park part
party past path peace people perfect person phone picture piece place plan plant plate play point police poor position
power practice present price private problem process product program project public purpose quality question quick
quiet race rain range
"""
WORDS: tuple[str, ...] = tuple(_TEXT.split())
